"""Changes that an agent can make to a tree and that tools like to lose. Each runs in a folder of its own.

``before`` runs when the image is made, ``after`` is the agent: both as root, in that folder, with `PRELUDE`.
``left_out`` is what the patch must not have, relative to the folder.
"""

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = r"""
import os, shutil, socket, subprocess
def put(name, data=b"", mode=0o644):
    name = os.fsencode(name)
    if os.path.dirname(name):
        os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as file:
        file.write(data)
    os.chmod(name, mode)
def sh(command):
    subprocess.run(command, shell=True, check=True)
os.environ["COMMIT"] = "git -c user.name=a -c user.email=a commit"
"""


@dataclass(frozen=True)
class Case:
    name: str
    before: str
    after: str
    left_out: tuple[bytes, ...] = ()


CASES = [
    Case(
        "text_edited",
        "put('a.py', b'a\\nb\\nc\\n' * 30)",
        "put('a.py', b'a\\nb\\nc\\n' * 15 + b'new\\n' + b'a\\nb\\nc\\n' * 15)",
    ),
    Case(
        "text_added_and_deleted", "put('old.py', b'1\\n')", "os.remove('old.py'); put('sub/new.py', b'2\\n')"
    ),
    Case(
        "binary_edited", "put('b.bin', bytes(range(256)) * 9)", "put('b.bin', bytes(range(255, -1, -1)) * 9)"
    ),
    Case("binary_added", "", "put('b.bin', os.urandom(70000))"),
    Case("binary_deleted", "put('b.bin', bytes(range(256)))", "os.remove('b.bin')"),
    Case("text_becomes_binary", "put('f', b'text\\n')", "put('f', b'\\0\\1\\2')"),
    Case("binary_becomes_text", "put('f', b'\\0\\1\\2')", "put('f', b'text\\n')"),
    Case("nul_far_behind", "put('f', b'x' * 9000 + b'\\n')", "put('f', b'x' * 9000 + b'\\n\\0\\n')"),
    Case("made_executable", "put('run.sh', b'#!/bin/sh\\n')", "os.chmod('run.sh', 0o755)"),
    Case("made_plain", "put('run.sh', b'#!/bin/sh\\n', 0o755)", "os.chmod('run.sh', 0o644)"),
    Case("mode_and_text", "put('run.sh', b'#!/bin/sh\\n')", "put('run.sh', b'#!/bin/bash\\n', 0o755)"),
    Case(
        "setuid_and_odd_bits",
        "put('s', b's\\n', 0o4755); put('t', b't\\n')",
        "os.chmod('s', 0o6711); os.chmod('t', 0o1644)",
    ),
    Case(
        "unreadable_to_others",
        "put('f', b'1\\n')",
        "put('f', b'2\\n', 0); put('g', b'3\\n', 0); os.chmod('.', 0o700)",
    ),
    Case("owned_by_somebody", "put('f', b'1\\n')", "put('f', b'2\\n'); os.chown('f', 12345, 54321)"),
    Case(
        "link_added",
        "",
        "os.symlink('a.py', 'l'); os.symlink('/etc/passwd', 'out'); os.symlink('../../../x', 'up')",
    ),
    Case(
        "link_dangling_and_loop",
        "",
        "os.symlink('nowhere', 'l'); os.symlink('loop', 'loop'); os.symlink('.', 'here')",
    ),
    Case("link_turned", "os.symlink('a', 'l')", "os.remove('l'); os.symlink('b', 'l')"),
    Case(
        "link_target_not_utf8",
        "os.symlink(b'\\xe9', 'l')",
        "os.remove('l'); os.symlink(b'\\xff\\xfe', 'l'); os.symlink(b'\\n\\t', 'm')",
    ),
    Case("link_becomes_file", "put('a', b'a\\n'); os.symlink('a', 'l')", "os.remove('l'); put('l', b'a\\n')"),
    Case("file_becomes_link", "put('a', b'a\\n'); put('b', b'a\\n')", "os.remove('b'); os.symlink('a', 'b')"),
    Case(
        "link_becomes_folder",
        "put('d/a', b'a\\n'); os.symlink('d', 'l')",
        "os.remove('l'); put('l/a', b'other\\n')",
    ),
    Case(
        "folder_becomes_link",
        "put('d/a', b'a\\n'); put('e/a', b'e\\n')",
        "shutil.rmtree('d'); os.symlink('e', 'd')",
    ),
    Case(
        "folder_becomes_link_out", "put('d/passwd', b'a\\n')", "shutil.rmtree('d'); os.symlink('/etc', 'd')"
    ),
    Case(
        "file_becomes_folder",
        "put('x', b'x\\n' * 20)",
        "os.remove('x'); put('x/x', b'x\\n' * 20); put('x/y', b'\\xff')",
    ),
    Case(
        "folder_becomes_file",
        "put('x/x', b'x\\n' * 20); put('x/y/z', b'\\xff')",
        "shutil.rmtree('x'); put('x', b'x\\n' * 20)",
    ),
    Case(
        "binary_becomes_folder",
        "put('x', b'\\0' * 20)",
        "os.remove('x'); put('x/t', b't\\n'); put('x/b', b'\\xff')",
    ),
    Case(
        "folder_becomes_binary",
        "put('x/t', b't\\n'); put('x/b', b'\\xff')",
        "shutil.rmtree('x'); put('x', b'\\0')",
    ),
    Case(
        "folder_made_anew",
        "put('d/a', b'a\\n'); put('d/b', b'b\\n')",
        "shutil.rmtree('d'); put('d/b', b'b\\n'); put('d/c', b'c\\n')",
    ),
    Case("folder_emptied", "put('d/a', b'a\\n')", "os.remove('d/a')"),
    Case("folder_deleted", "put('d/a', b'a\\n'); put('d/e/b', b'b\\n')", "shutil.rmtree('d')"),
    Case("folder_moved", "[put(f'd/{i}.py', b'%d\\n' % i * 20) for i in range(9)]", "shutil.move('d', 'e')"),
    Case("renamed", "put('a.py', b'line\\n' * 50)", "os.rename('a.py', 'b.py')"),
    Case(
        "renamed_and_edited",
        "put('a.py', b'line\\n' * 50)",
        "os.remove('a.py'); put('deep/b.py', b'line\\n' * 49 + b'x\\n')",
    ),
    Case(
        "renamed_into_own_name",
        "put('a', b'line\\n' * 50)",
        "os.rename('a', 'tmp'); os.mkdir('a'); os.rename('tmp', 'a/a')",
    ),
    Case(
        "names_swapped",
        "put('a', b'1\\n' * 50); put('b', b'2\\n' * 50)",
        "os.rename('a', 't'); os.rename('b', 'a'); os.rename('t', 'b')",
    ),
    Case("copied", "put('a', b'1\\n' * 50)", "shutil.copy('a', 'b'); put('a', b'1\\n' * 51)"),
    Case("crlf", "put('f', b'a\\r\\nb\\r\\nc\\r\\n')", "put('f', b'a\\r\\nB\\r\\nc\\r\\n')"),
    Case(
        "crlf_to_lf",
        "put('f', b'a\\r\\nb\\r\\n'); put('g', b'a\\nb\\n')",
        "put('f', b'a\\nb\\n'); put('g', b'a\\r\\nb\\r\\n')",
    ),
    Case(
        "mixed_line_ends",
        "put('f', b'a\\nb\\r\\nc\\rd\\n\\r\\n')",
        "put('f', b'a\\rb\\r\\nc\\rd\\n\\n\\r\\r\\n')",
    ),
    Case(
        "no_last_newline",
        "put('f', b'a\\nb'); put('g', b'a\\nb\\n')",
        "put('f', b'a\\nc'); put('g', b'a\\nb')",
    ),
    Case("last_newline_added", "put('f', b'a\\nb')", "put('f', b'a\\nb\\n')"),
    Case("last_is_cr", "put('f', b'a\\nb\\r')", "put('f', b'a\\nb\\n\\r')"),
    Case("only_newlines", "put('f', b'\\n\\n\\n')", "put('f', b'\\n\\n'); put('g', b'\\n')"),
    Case("only_white_space", "put('f', b'if x:\\n    y\\n')", "put('f', b'if x:\\n\\ty  \\n')"),
    Case(
        "empty_files",
        "put('a'); put('b', b'x\\n'); put('c', b'', 0o755)",
        "os.remove('a'); put('b'); put('d'); put('e', b'', 0o755)",
    ),
    Case(
        "looks_like_a_patch",
        "put('f', b'-- a\\n++ b\\n')",
        "put('f', b'diff --git a/x b/x\\n--- a/x\\n+++ b/x\\n@@ -1 +1 @@\\n-a\\n+b\\n')",
    ),
    Case("sql_comments", "put('f', b'-- a/old\\nx\\n')", "put('f', b'++ b/new\\nx\\n-- /etc/passwd\\n')"),
    Case(
        "unicode_line_ends",
        "put('f', 'a\\u2028b\\x85c\\x0cd\\x0be\\x1cf\\n'.encode())",
        "put('f', 'A\\u2028b\\x85c\\x0cd\\x0be\\x1cg\\n'.encode())",
    ),
    Case("bom", "put('f', b'a\\n')", "put('f', b'\\xef\\xbb\\xbfa\\n')"),
    Case("latin_1", "put('f', 'café\\n'.encode('latin-1'))", "put('f', 'cafés\\n'.encode('latin-1'))"),
    Case("latin_1_context", "put('f', b'caf\\xe9\\nx\\n')", "put('f', b'caf\\xe9\\ny\\n')"),
    Case("latin_1_to_utf_8", "put('f', 'café\\n'.encode('latin-1'))", "put('f', 'café\\n'.encode())"),
    Case("utf_16", "put('f', 'hello\\n'.encode('utf-16'))", "put('f', 'hallo\\n'.encode('utf-16'))"),
    Case("encoded_surrogate", "put('f', b'x\\n')", "put('f', b'\\xed\\xa0\\x80\\n')"),
    Case(
        "long_heading",
        "put('f', ('def ' + 'ü' * 60 + '():\\n' + '  x\\n' * 9).encode())",
        "put('f', ('def ' + 'ü' * 60 + '():\\n' + '  x\\n' * 8 + '  y\\n').encode())",
    ),
    Case(
        "long_heading_odd",
        "put('f', ('d' + 'ü' * 60 + '():\\n' + '  x\\n' * 9).encode())",
        "put('f', ('d' + 'ü' * 60 + '():\\n' + '  x\\n' * 8 + '  y\\n').encode())",
    ),
    Case("huge_line", "put('f', b'x' * 300000)", "put('f', b'x' * 200000 + b'y' + b'x' * 100000)"),
    Case(
        "large_text",
        "put('f', b''.join(b'%d\\n' % i for i in range(40000)))",
        "put('f', b''.join(b'%d\\n' % (i ^ 4) for i in range(40000)))",
    ),
    Case(
        "spaces_and_quotes",
        "put(' a b ', b'1\\n')",
        "put(' a b ', b'2\\n'); put('\"q\"', b'3\\n'); put(\"it's\", b'4\\n'); put('a -> b', b'5\\n')",
    ),
    Case(
        "control_characters",
        "put('a\\tb', b'1\\n')",
        "os.remove('a\\tb'); put('c\\nd\\r', b'2\\n'); put('\\x01\\x7f', b'3\\n'); "
        "os.rename('c\\nd\\r', 'e\\n')",
    ),
    Case("leading_dash", "put('-x', b'1\\n')", "put('-x', b'2\\n'); put('--help', b'3\\n')"),
    Case(
        "pathspec_magic",
        "put(':(top)x', b'1\\n')",
        "put(':(top)x', b'2\\n'); put(':!y', b'3\\n'); put('*', b'4\\n'); put('[a]?', b'5\\n')",
    ),
    Case(
        "backslashes",
        "put('a\\\\b', b'1\\n')",
        "put('a\\\\b', b'2\\n'); put('\\\\', b'3\\n'); put('\\\\077', b'4\\n')",
    ),
    Case(
        "not_ascii",
        "put('grün.py', b'1\\n')",
        "put('grün.py', b'2\\n'); put('日本/語.py', b'3\\n'); "
        "put('e\\u0301', b'4\\n'); put('\\u00e9', b'5\\n')",
    ),
    Case(
        "replacement_character",
        "put('\\ufffd', b'1\\n')",
        "put('\\ufffd', b'2\\n'); put('x\\ufffd/y', b'3\\n')",
    ),
    Case(
        "names_not_utf8",
        "put(b'f\\xff', b'1\\n'); put(b'd\\xe9/f', b'2\\n'); put(b'gone\\xfe', b'3\\n')",
        "put(b'f\\xff', b'4\\n'); put(b'd\\xe9/f', b'5\\n'); put(b'd\\xe9/g\\xc3', b'6\\n'); "
        "os.remove(b'gone\\xfe'); put(b'n\\xff.bin', b'\\xff\\0')",
    ),
    Case(
        "folder_not_utf8_made_anew",
        "put(b'd\\xe9/a', b'1\\n'); put(b'd\\xe9/b', b'2\\n')",
        "shutil.rmtree(b'd\\xe9'); put(b'd\\xe9/b', b'3\\n')",
    ),
    Case(
        "long_names",
        "put('n' * 250, b'1\\n')",
        "put('n' * 250, b'2\\n'); put('/'.join(['é' * 100] * 12) + '/f', b'3\\n'); "
        "put('/'.join(['d' * 60] * 20), b'4\\n')",
    ),
    Case("case_twins", "put('readme', b'1\\n')", "put('README', b'2\\n'); put('Readme/x', b'3\\n')"),
    Case(
        "looks_reserved",
        "put('.github/w.yml', b'1\\n')",
        "put('.github/w.yml', b'2\\n'); put('.gitignore', b'*\\n'); "
        "put('.gitattributes', b'* -diff filter=evil text eol=crlf\\n'); put('git', b'3\\n'); "
        "put('a.git/x', b'4\\n'); put('.gitmodules', b'[x]\\n')",
    ),
    Case(
        "named_like_dot_git",
        "",
        "put('.GIT/x', b'1\\n'); put('git~1', b'1\\n'); put('.git /y', b'1\\n'); put('z', b'2\\n')",
        (b".GIT", b"git~1", b".git "),
    ),
    Case("link_named_gitmodules", "", "os.symlink('x', '.gitmodules'); put('x', b'1\\n')", (b".gitmodules",)),
    Case(
        "hard_links",
        "put('a', b'1\\n')",
        "put('b', b'2\\n'); os.link('b', 'c'); os.link('a', 'd'); "
        "[put(f'm/{i}', b'%d\\n' % i) for i in range(9)]; os.link('m/1', 'm/n')",
    ),
    Case("hard_link_written_through", "put('a', b'1\\n'); os.link('a', 'b')", "put('a', b'2\\n')"),
    Case(
        "special_files",
        "put('f', b'1\\n')",
        "os.remove('f'); os.mkfifo('f'); os.mkfifo('pipe'); "
        "socket.socket(socket.AF_UNIX).bind('sock'); put('n', b'2\\n')",
        (),
    ),
    Case("sparse_file", "", "h = open('s', 'wb'); h.seek(3000000); h.write(b'end'); h.close()"),
    Case("empty_folders", "put('keep/f', b'1\\n')", "os.makedirs('x/y/z'); os.makedirs('keep/e')"),
    Case(
        "nested_repository",
        "put('in/f', b'1\\n'); sh('git init -q in && cd in && git add f && $COMMIT -qm x')",
        "put('in/f', b'2\\n'); put('in/g', b'3\\n'); sh('cd in && git add g && $COMMIT -qm y')",
    ),
    Case(
        "repository_begun",
        "put('f', b'1\\n')",
        "sh('git init -q . && git add . && $COMMIT -qm x'); put('f', b'2\\n')",
    ),
    Case(
        "submodule_work_tree",
        "put('sub/.git', b'gitdir: ../nowhere\\n'); put('sub/f', b'1\\n')",
        "put('sub/f', b'2\\n'); put('sub/g', b'3\\n')",
    ),
    Case(
        "hard_link_into_dot_git",
        "",
        "os.makedirs('h/.git'); put('h/.git/x', b'1\\n'); os.link('h/.git/x', 'h/x'); "
        "[put(f'h/{i}', b'2\\n') for i in range(9)]",
    ),
    Case(
        "same_size_and_time",
        "put('f', b'abc\\n'); os.utime('f', (1, 1))",
        "put('f', b'xyz\\n'); os.utime('f', (1, 1))",
    ),
    Case(
        "only_touched",
        "put('f', b'1\\n'); put('d/e', b'2\\n')",
        "os.utime('f'); os.chmod('d', 0o755); os.utime('d')",
    ),
    Case(
        "written_back",
        "put('f', b'1\\n')",
        "put('f', b'2\\n'); put('f', b'1\\n'); put('t', b'3\\n'); os.remove('t')",
    ),
    Case(
        "many_small_files",
        "[put(f'd/{i}', b'%d\\n' % i) for i in range(300)]",
        "[put(f'd/{i}', b'%d!\\n' % i) for i in range(0, 300, 3)]; "
        "[os.remove(f'd/{i}') for i in range(1, 300, 3)]",
    ),
    Case(
        "caches",
        "put('a.py', b'1\\n')",
        "put('__pycache__/a.cpython-311.pyc', b'\\0'); put('b.pyc', b'\\0'); "
        "put('.pytest_cache/v', b'x'); put('x.egg-info/PKG-INFO', b'x'); put('.tox/py/x', b'x'); "
        "put('a.py', b'2\\n')",
        (b"__pycache__", b"b.pyc", b".pytest_cache", b"x.egg-info", b".tox"),
    ),
    Case(
        "caches_tracked",
        "put('t/__pycache__/a.pyc', b'\\0'); put('t/y.egg-info/PKG-INFO', b'1\\n'); sh('git add -f t')",
        "put('t/__pycache__/a.pyc', b'\\1'); put('t/y.egg-info/PKG-INFO', b'2\\n'); "
        "put('t/__pycache__/b.pyc', b'\\1')",
        (b"t/__pycache__/b.pyc",),
    ),
    Case(
        "virtual_environment",
        "put('a', b'1\\n')",
        "put('env/pyvenv.cfg', b'x'); put('env/lib/m.py', b'x'); "
        "os.symlink('/usr/bin/python3', 'env/python'); put('a', b'2\\n')",
        (b"env",),
    ),
    Case(
        "virtual_environment_of_image",
        "put('env/pyvenv.cfg', b'x'); put('env/lib/m.py', b'x'); put('.gitignore', b'/env\\n')",
        "put('env/lib/m.py', b'y'); os.remove('env/pyvenv.cfg'); put('a', b'2\\n')",
        (b"env",),
    ),
    Case(
        "build_not_at_the_root",
        "put('build/lib/m.py', b'1\\n')",
        "put('build/lib/m.py', b'2\\n'); put('build/bdist.x/n', b'3\\n')",
    ),
    Case(
        "ignored",
        "put('old.log', b'1\\n'); put('ignored_dir/f', b'1\\n')",
        "put('old.log', b'2\\n'); put('new.log', b'3\\n'); put('keep.log', b'4\\n'); "
        "put('ignored_dir/f', b'2\\n'); put('ignored_dir/deep/g', b'3\\n'); "
        "put('x/ignored_dir', b'a file\\n')",
        (b"old.log", b"new.log", b"ignored_dir"),
    ),
    Case(
        "ignored_deleted",
        "put('old.log', b'1\\n'); put('d/ignored_dir/f', b'1\\n'); put('d/g', b'2\\n')",
        "os.remove('old.log'); shutil.rmtree('d')",
        (b"old.log", b"d/ignored_dir"),
    ),
    Case(
        "ignored_but_tracked",
        "put('t.log', b'1\\n'); put('ignored_dir/t', b'1\\n'); sh('git add -f t.log ignored_dir/t')",
        "put('t.log', b'2\\n'); os.remove('ignored_dir/t'); put('ignored_dir/u', b'1\\n')",
        (b"ignored_dir/u",),
    ),
    Case(
        "ignored_below",
        "put('.gitignore', b'*.tmp\\n!/good.tmp\\n\\\\!x\\n')",
        "put('a.tmp', b'1\\n'); put('good.tmp', b'2\\n'); put('d/good.tmp', b'3\\n'); "
        "put('!x', b'4\\n'); put(':(top)q.tmp', b'5\\n')",
        (b"a.tmp", b"d/good.tmp", b"!x", b":(top)q.tmp"),
    ),
    Case(
        "ignoring_by_the_agent",
        "put('.gitignore', b'*.tmp\\n')",
        "put('.gitignore', b'*\\n'); put('sub/.gitignore', b'*\\n'); put('sub/f.py', b'1\\n'); "
        "put('a.tmp', b'2\\n')",
        (b"a.tmp",),
    ),
]
