"""Tables of hosts by what they do; docs/blocklist.md says how each table is used."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


SHORTENERS = words(
    """
    0rz.tw 1url.com 2.gp adf.ly adfoc.us aka.ms amzn.to app.link b23.tv bc.vc bit.do bit.ly bitly.com bitly.ws
    bl.ink buff.ly chilp.it clck.ru cleanuri.com cutt.ly da.gd db.tt dlvr.it dub.co dub.sh dwz.cn dwz.mk fb.me
    ff.im flip.it g.co gg.gg git.io goo.gl goo.su hubs.ly ift.tt is.gd j.mp kutt.it lihi.cc lnk.to lnkd.in
    lstu.fr mcaf.ee n9.cl ouo.io ow.ly page.link po.st ppt.cc pse.is qr.ae qr.net qrco.de rb.gy rebrand.ly
    reurl.cc rotf.lol s.coop s.id scnv.io short.gy short.io short.link shorte.st shorturl.asia shorturl.at
    shorturl.com shrtco.de smarturl.it snip.ly snipurl.com soo.gd spoo.me su.pr suo.im surl.li t.cn t.co t.ly
    tiny.cc tiny.one tinyurl.co tinyurl.com tinyurl.is tny.im tr.im trib.al u.nu u.to ulvis.net url.cn
    urlshort.dev urlz.fr v.gd v.ht vk.cc vo.la x.co x.gd xy2.eu zpr.io zws.im
    """
)
"""Hosts, and all below them, whose addresses do not show where they lead."""

OPAQUE_ARCHIVES = words(
    """
    archive.ph archive.today archive.is archive.li archive.vn archive.fo archive.md perma.cc webcitation.org
    freezepage.com cc.bingj.com
    """
)
"""Archives whose short ids hide the archived address just as a shortener does."""

SEARCH_ENGINES: dict[str, tuple[str, ...]] = {
    "bing.com": ("/search", "/news/search", "/images/search", "/videos/search", "/shop"),
    "duckduckgo.com": ("/", "/html", "/lite", "/d.js", "/links.js"),
    "html.duckduckgo.com": ("/html", "/"),
    "lite.duckduckgo.com": ("/lite", "/"),
    "safe.duckduckgo.com": ("/",),
    "start.duckduckgo.com": ("/",),
    "noai.duckduckgo.com": ("/",),
    "api.duckduckgo.com": ("/",),
    "links.duckduckgo.com": ("/",),
    "duck.com": ("/",),
    "search.yahoo.com": ("/search",),
    "search.yahoo.co.jp": ("/search",),
    "search.aol.com": ("/",),
    "search.brave.com": ("/search", "/api", "/goggles", "/ask"),
    "api.search.brave.com": ("/",),
    "baidu.com": ("/s", "/from"),
    "m.baidu.com": ("/s", "/from"),
    "sogou.com": ("/web", "/sogou"),
    "so.com": ("/s",),
    "sm.cn": ("/s",),
    "naver.com": ("/search.naver",),
    "search.naver.com": ("/",),
    "search.daum.net": ("/",),
    "seznam.cz": ("/",),
    "search.seznam.cz": ("/",),
    "ecosia.org": ("/search", "/web"),
    "startpage.com": ("/search", "/do", "/sp", "/rvd"),
    "qwant.com": ("/",),
    "lite.qwant.com": ("/",),
    "api.qwant.com": ("/",),
    "kagi.com": ("/search", "/html", "/api", "/fastgpt"),
    "mojeek.com": ("/search",),
    "api.mojeek.com": ("/",),
    "you.com": ("/search", "/api"),
    "api.you.com": ("/",),
    "api.ydc-index.io": ("/",),
    "perplexity.ai": ("/search",),
    "api.perplexity.ai": ("/",),
    "phind.com": ("/search", "/agent"),
    "swisscows.com": ("/",),
    "metager.org": ("/meta",),
    "metager.de": ("/meta",),
    "gibiru.com": ("/",),
    "presearch.com": ("/search",),
    "dogpile.com": ("/serp",),
    "ask.com": ("/web",),
    "lycos.com": ("/web",),
    "search.lycos.com": ("/",),
    "webcrawler.com": ("/serp",),
    "excite.com": ("/serp",),
    "info.com": ("/serp",),
    "yep.com": ("/web",),
    "stract.com": ("/search",),
    "search.marginalia.nu": ("/search", "/"),
    "marginalia-search.com": ("/search",),
    "wiby.me": ("/",),
    "search.carrot2.org": ("/",),
    "onesearch.com": ("/",),
    "givero.com": ("/search",),
    "whoogle.io": ("/",),
    "s.jina.ai": ("/",),
    "serpapi.com": ("/search",),
    "google.serper.dev": ("/",),
    "api.tavily.com": ("/",),
    "api.exa.ai": ("/",),
    "api.bing.microsoft.com": ("/",),
    "customsearch.googleapis.com": ("/",),
    "cse.google.com": ("/cse",),
    "search.google.com": ("/search",),
    "exa.ai": ("/search",),
    "andisearch.com": ("/",),
    "felo.ai": ("/search",),
    "iask.ai": ("/",),
    "googleapis.com": ("/customsearch",),
}
"""Host (without www.) to the beginnings of paths under which it shows results."""

FORGES_OWNER_NAME = words(
    """
    app.deepsource.com atomgit.com bitbucket.org cdn.rawgit.com cnb.cool codeberg.org codeload.github.com
    codewiki.google dagshub.com deepwiki.com gist.github.com gist.githubusercontent.com git.sr.ht
    gitdiagram.com gitea.com gitee.com github.com github.dev github1s.com gitingest.com gitlab1s.com gitmcp.io
    gitpodcast.com gitroll.io gitstar-ranking.com gitsummarize.com hg.sr.ht jihulab.com m.github.com
    notabug.org raw.githack.com raw.github.com raw.githubusercontent.com rawcdn.githack.com rawgit.com
    repomix.com sr.ht uithub.com zread.ai
    """
)
"""Hosts whose paths begin with owner/name."""

GITHUB_TEXT = words(
    """
    docs.github.com support.github.com education.github.com skills.github.com resources.github.com
    partner.github.com lab.github.com classroom.github.com securitylab.github.com github.blog githubstatus.com
    githubuniverse.com cli.github.com desktop.github.com enterprise.github.com
    """
)
"""GitHub's own pages, which hold no repositories."""

RESERVED_OWNERS = words(
    """
    about account advisories api apps assets blog codespaces collections contact copilot customer-stories
    dashboard discover discussions enterprise events explore features global-campaigns groups help import
    issues join login logout marketplace new newsroom nonprofit notifications organizations orgs partners
    pricing pulls readme repositories resources search security sessions settings shop signup site snippets
    solutions sponsors stars status team teams topics trending user user-attachments users watching why-github
    """
)
"""First parts of forge paths that are no owners."""

CODE_SEARCH = words(
    """
    api.github.com api.grep.app archive.softwareheritage.org bitbucket.org codeberg.org codesearch.debian.net
    gitee.com github.com gitlab.com grep.app mcp.grep.app searchcode.com sourcegraph.com sr.ht
    """
)
"""Hosts where code, issues and repositories are searched."""

PACKAGE_SITES = words(
    """
    anaconda.com anaconda.org api.anaconda.org api.deps.dev clickpy.clickhouse.com conda-forge.org
    conda.anaconda.org condastats.org deps.dev ecosyste.ms formulae.brew.sh fossies.org libraries.io
    newreleases.io openbase.com openhub.net ossindex.sonatype.org packagegalaxy.com packages.ecosyste.ms
    pepy.tech piptrends.com piwheels.org pkgs.org prefix.dev pydigger.com pydoc.dev pydoc.net pypacktrends.com
    pypistats.org pyup.io release-monitoring.org repology.org rpmfind.net safetycli.com security.snyk.io
    snyk.io socket.dev sonatype.com sourceforge.net versioneye.com vulert.com wheelodex.org
    """
)
"""Hosts (and all below them) that keep pages on packages; every part of the path that is the name counts."""

DISTRIBUTION_SITES = words(
    """
    debian.org debian.net ubuntu.com launchpad.net archlinux.org alpinelinux.org fedoraproject.org
    opensuse.org gentoo.org freebsd.org freshports.org nixos.org centos.org rockylinux.org almalinux.org
    voidlinux.org openbsd.org netbsd.org macports.org slackbuilds.org guix.gnu.org salsa.debian.org mageia.org
    openmandriva.org altlinux.org linuxmint.com kali.org pureos.net trisquel.info devuan.org pkgsrc.se
    parabola.nu artixlinux.org manjaro.org clearlinux.org solus-project.com pld-linux.org rpmfusion.org
    openeuler.org termux.dev pkgs.org rpmfind.net repology.org spack.io
    """
)
"""Hosts of operating system distributions, whose packages carry the upstream source."""

READERS = words(
    """
    ampproject.org
    r.jina.ai web.archive.org archive.org archive.ph archive.today archive.is archive.li archive.vn archive.fo
    archive.md perma.cc webcache.googleusercontent.com cc.bingj.com translate.google.com translate.yandex.com
    translate.yandex.ru translated.turbopages.org api.allorigins.win corsproxy.io cors.sh proxy.cors.sh
    cors-anywhere.herokuapp.com thingproxy.freeboard.io api.codetabs.com 12ft.io 1ft.io outline.com txtify.it
    pure.md urltomarkdown.com urltomarkdown.herokuapp.com via.hypothes.is validator.w3.org ghproxy.com
    ghproxy.net gh-proxy.com mirror.ghproxy.com timetravel.mementoweb.org arquivo.pt webcitation.org
    freezepage.com defuddle.md markdown.new html2text.org microsofttranslator.com webpage.translate.goog
    removepaywall.com archive.softwareheritage.org megalodon.jp
    """
)
"""Readers, caches, archives, translators and proxies that show another address."""

PAGES_PLATFORMS = (
    ".github.io",
    ".gitlab.io",
    ".codeberg.page",
    ".bitbucket.io",
    ".frama.io",
    ".gitee.io",
    ".srht.site",
    ".gitmcp.io",
    ".sourceforge.io",
    ".sourceforge.net",
    ".githack.com",
)
"""Ends of hosts of pages sites: owner.host/name."""

NAMED_SITES = (
    ".readthedocs.io",
    ".readthedocs.org",
    ".readthedocs.build",
    ".readthedocs-hosted.com",
    ".rtfd.io",
    ".rtfd.org",
    ".netlify.app",
    ".pages.dev",
    ".vercel.app",
    ".web.app",
    ".firebaseapp.com",
    ".herokuapp.com",
    ".surge.sh",
    ".gitbook.io",
    ".fly.dev",
    ".onrender.com",
    ".streamlit.app",
    ".mintlify.app",
    *PAGES_PLATFORMS,
)
"""Ends of hosts where the label before is the project's name."""

DOCS_PLATFORMS = words(
    """
    readthedocs.org readthedocs.io readthedocs.com buildmedia.readthedocs.org app.readthedocs.org
    media.readthedocs.org rtfd.org devdocs.io documents.devdocs.io
    """
)
"""Hosts of many projects' documentation, with the project's name in the path."""

CONTAINER_REGISTRIES = words(
    """
    ghcr.io quay.io docker.io hub.docker.com registry-1.docker.io index.docker.io registry.gitlab.com
    docker.pkg.github.com containers.pkg.github.com public.ecr.aws gallery.ecr.aws
    """
)

WILDCARD_DNS = (
    ".nip.io",
    ".sslip.io",
    ".xip.io",
    ".traefik.me",
    ".localtest.me",
    ".lvh.me",
    ".vcap.me",
    ".lacolhost.com",
    ".local.gd",
    ".1u.ms",
    ".rbndr.us",
    ".backname.io",
    ".ip.addr.tools",
)
"""Public names that lead to any address, loopback included."""

INTERNAL_SUFFIXES = (
    ".localhost",
    ".local",
    ".localdomain",
    ".internal",
    ".intranet",
    ".lan",
    ".home",
    ".corp",
    ".private",
    ".home.arpa",
    ".in-addr.arpa",
    ".ip6.arpa",
    ".svc",
    ".cluster.local",
    ".consul",
    ".onion",
    ".i2p",
)
"""Ends of names that lead into a network of the host, or past any name service."""


def under(host: str, table: frozenset[str]) -> bool:
    """Whether a host, or a host above it, is in a table."""
    if host in table:
        return True
    at = host.find(".")
    while at >= 0:
        if host[at + 1 :] in table:
            return True
        at = host.find(".", at + 1)
    return False
