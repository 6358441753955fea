"""`__main__.py` of tonnage.pyz: unpack what cannot be imported from a zip, once, and run Tonnage from there.

Compiled modules are loaded by the operating system, from files. So the whole archive is unpacked into a private folder,
named by the hash of what is in it:

    ~/.cache/tonnage/0.1.0-0f3a…/       $XDG_CACHE_HOME and $TONNAGE_PYZ_CACHE (the folder itself) say otherwise

A folder is there whole or not at all: it is filled under another name and renamed, by one process at a time. What a
process left that was killed meanwhile is thrown away by the next. A cache that somebody else owns or may write to is
refused: what lies there is run. Old versions stay until somebody removes them; nothing else is kept there.

Nothing of Tonnage can be imported yet, and any Python 3 may be given the file: this keeps to what older ones
understand.
"""

import fcntl
import json
import os
import shutil
import stat
import sys
import sysconfig
import zipfile
import zlib
from pathlib import Path

SITE = "site/"
"""What is unpacked stands below this in the archive."""
ENTRIES = {"kubectl-tonnage": "kubectl_main", "kubectl_complete-tonnage": "kubectl_complete"}
"""A link of this name to the file is what the wheel installs by it: a plugin of kubectl."""


def main():
    archive = Path(__file__).resolve().parent
    about = json.loads(__loader__.get_data("about.json").decode("utf-8"))  # by no path: ./ and links are others
    python, platform = sys.implementation.cache_tag, sysconfig.get_platform()
    if (about["python"], about["platform"]) != (python, platform):
        fail(
            f"this file is for {about['python']} on {about['platform']}, and runs by {python} on {platform}",
            "take the tonnage.pyz of this Python, or `pip install` the wheel, which is for all of them",
        )
    cache = cache_folder(os.environ)
    folder = cache / f"{about['version']}-{about['digest'][:32]}"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(cache)
        if not folder.is_dir():
            unpack_once(archive, folder)
        check_private(folder)
    except (OSError, zipfile.BadZipFile, zlib.error) as exc:
        fail(
            f"{archive} cannot be unpacked into {cache}: {getattr(exc, 'strerror', None) or exc}",
            "name a folder that can be written to, and run from, by TONNAGE_PYZ_CACHE",
        )
    sys.path[0] = str(folder)
    called, sys.argv[0] = Path(sys.argv[0]).name, "tonnage"
    try:
        from tonnage import cli

        run = getattr(cli, ENTRIES.get(called, "main"))
    except (ImportError, SyntaxError, AttributeError) as exc:
        fail(f"{folder} is not whole: {exc}", f"rm -r {folder}; it is unpacked anew at the next start")
    run()


def cache_folder(environ):
    """Where versions are unpacked."""
    if environ.get("TONNAGE_PYZ_CACHE"):
        return Path(environ["TONNAGE_PYZ_CACHE"]).absolute()
    home = environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path("~").expanduser() / ".cache").absolute() / "tonnage"


def check_private(folder):
    """Raises OSError when somebody else could have put something there."""
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise OSError(f"{folder} belongs to user {found.st_uid}")
    if stat.S_IMODE(found.st_mode) & 0o022:
        raise OSError(f"others may write to {folder}; chmod go-w takes that away")


def unpack_once(archive, folder):
    """Fill `folder`, or wait for the process that does; it is there afterwards. Raises OSError and zipfile's errors."""
    lock = os.open(f"{folder}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel lets go of it when its holder dies
        if folder.is_dir():
            return
        partial = Path(f"{folder}.partial")
        if partial.exists():
            shutil.rmtree(partial)
        try:
            unpack(archive, partial)
            os.sync()  # a power cut must not leave a folder with empty files behind its good name
            partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    finally:
        os.close(lock)


def unpack(archive, folder):
    folder.mkdir(mode=0o700)
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            if not entry.filename.startswith(SITE):
                continue
            path = folder.joinpath(*entry.filename[len(SITE) :].split("/"))
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with opened.open(entry) as source, path.open("wb") as target:  # the zip's checksum is looked at here
                shutil.copyfileobj(source, target, 1 << 20)
            path.chmod(0o600)


def fail(message, hint):
    sys.stderr.write(f"error: {message}\nhint: {hint}\n")
    sys.exit(1)


if __name__ == "__main__":
    main()
