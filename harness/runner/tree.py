"""Put a change into a tree as data: every step looks before it leaps (lstat, O_NOFOLLOW), no link is ever
followed.

Paths are relative, of bytes, with ``/``; the trees that they come from were checked on the host, and are
again here. Where something else stands in the way of a path (a link where a folder must be, a folder where a
file must be), it goes: the change describes the whole truth about the paths that it names.
"""

import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):
    """A path or an entry that no honest job holds."""


def parts_of(path):
    """The components of a relative path; `Refused` for anything that could lead out of the tree."""
    parts = path.split(b"/")
    if b"\0" in path or any(part in (b"", b".", b"..") for part in parts):
        raise Refused("not a path inside the tree: %r" % (path,))
    return parts


def delete(root, path):
    """Remove a file or link, and the folders that it leaves empty; what is not there needs no removing."""
    parts = parts_of(path)
    folders = [os.open(root, _FOLDER)]
    try:
        for part in parts[:-1]:
            try:
                folders.append(os.open(part, _FOLDER, dir_fd=folders[-1]))
            except OSError:  # gone, or no folder: then nothing of the tree is behind it
                return
        _remove(folders[-1], parts[-1])
        for depth in range(len(parts) - 2, -1, -1):
            try:
                os.rmdir(parts[depth], dir_fd=folders[depth])
            except OSError:  # not empty: it stays, and so do those above
                return
    finally:
        for folder in folders:
            os.close(folder)


def write(root, path, mode, data, owner, seconds=None):
    """Write a file (mode 0o100644 or 0o100755) or a link (0o120000, ``data`` is its text) as ``owner`` (uid,
    gid), with the time ``seconds``.
    """
    parts = parts_of(path)
    folder = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            deeper = _enter(folder, part, owner)
            os.close(folder)
            folder = deeper
        name = parts[-1]
        _remove(folder, name)
        if mode == 0o120000:
            os.symlink(data, name, dir_fd=folder)
            os.chown(name, owner[0], owner[1], dir_fd=folder, follow_symlinks=False)
        elif mode in (0o100644, 0o100755):
            file = os.open(
                name,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=folder,
            )
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(file, view) :]
                os.fchown(file, owner[0], owner[1])
                os.fchmod(file, mode & 0o777)
                if seconds is not None:
                    os.utime(file, (seconds, seconds))
            finally:
                os.close(file)
        else:
            raise Refused("mode %o of %r is none of a file or a link" % (mode, path))
    finally:
        os.close(folder)


def forget_compiled(root, path):
    """Remove what an interpreter keeps beside a module as its compiled form, and the folder for it if that is
    empty then.
    """
    parts = parts_of(path)
    folder = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            try:
                deeper = os.open(part, _FOLDER, dir_fd=folder)
            except OSError:  # no such folder: nothing was compiled there
                return
            os.close(folder)
            folder = deeper
        try:
            caches = os.open(b"__pycache__", _FOLDER, dir_fd=folder)
        except OSError:  # nothing was compiled there, or a link says where it was
            _remove(folder, b"__pycache__")
            return
        try:
            stem = parts[-1].rpartition(b".")[0] + b"."
            for entry in map(os.fsencode, os.listdir(caches)):
                if entry.startswith(stem):
                    _remove(caches, entry)
        finally:
            os.close(caches)
        try:
            os.rmdir(b"__pycache__", dir_fd=folder)
        except OSError:
            pass  # other modules have something left
    finally:
        os.close(folder)


def seal(root, uid):
    """Leave nothing below a folder that the user ``uid``, who is in no group of anybody else, can write to."""
    folders = [root]
    while folders:
        folder = folders.pop()
        _seal(folder, os.lstat(folder), uid)
        for entry in os.scandir(folder):
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                folders.append(entry.path)
            elif stat.S_ISREG(found.st_mode):
                _seal(entry.path, found, uid)


def _seal(path, found, uid):
    if found.st_uid == uid or found.st_gid == uid:
        os.chown(path, 0, 0)
    if found.st_mode & 0o002 or found.st_uid == uid:
        os.chmod(path, stat.S_IMODE(found.st_mode) & ~0o022)


def remove_all(path):
    """Remove a folder of ours and everything in it."""
    folder = os.open(os.path.dirname(path) or b"/", _FOLDER)
    try:
        _remove(folder, os.path.basename(path))
    finally:
        os.close(folder)


def _enter(folder, name, owner):
    """Open the folder ``name`` in ``folder``; make it where it is missing or something else has its name."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        _remove(folder, name)
        os.mkdir(name, 0o755, dir_fd=folder)
        os.chown(name, owner[0], owner[1], dir_fd=folder, follow_symlinks=False)
        return os.open(name, _FOLDER, dir_fd=folder)


def _remove(folder, name):
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        for entry in os.listdir(inner):
            _remove(inner, os.fsencode(entry))
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)
