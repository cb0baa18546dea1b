"""The same file in two folders: by a hard link where both lie on one local disk, else by a copy.

Files of this engine are never changed once they have their names, so a link is as good as a copy: deleting one name leaves
the other, and the bytes go with the last.
"""

from __future__ import annotations

import errno
import os

from changelog_engine.errors import StorageError
from changelog_engine.storage.filesystem import Storage
from changelog_engine.storage.retry import explain

# Another disk, no links here, too many links, or links to files of others are forbidden.
_NO_LINKS = {
    errno.EXDEV,
    errno.EPERM,
    errno.EACCES,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.EMLINK,
    errno.ENOSYS,
}


def share_file(source: Storage, target: Storage, path: str) -> bool:
    """Give a file of one folder the same name in another. Not durable before the target's ``sync_folder``.

    Args:
        source: where it is.
        target: where it shall be, too; the folder is there.
        path: its name in both.

    Returns:
        True when the bytes are shared, False when they were copied.

    Raises:
        FileNotFoundError: there is no such file.
        StorageError: it could not be written.
    """
    if source.local is not None and target.local is not None:
        try:
            os.link(source.place(path), target.place(path))
            return True
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise explain(error, f"link {target.join(path)}", 1) from error
    target.write_durable(path, source.read(path))
    return False


def publish_folder(base: Storage, temporary: str, name: str) -> None:
    """Give a finished folder its name, at once. Local disks only.

    Raises:
        StorageError: the name is taken by now, or the folder can't be moved.
    """
    try:
        os.rename(base.place(temporary), base.place(name))
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise StorageError(f"{base.join(name)} was made by somebody else meanwhile") from error
        raise explain(error, f"move {base.join(temporary)} to {base.join(name)}", 1) from error
    base.sync_folder()
