"""The repository's files, as the check scripts see them."""

import os
import subprocess


def repository_files(root, suffixes, folders):
    """Sorted relative paths under folders with one of the suffixes: tracked files and new ones that
    git does not ignore; outside a git work tree every file."""
    try:
        listing = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True).stdout
        paths = [path for path in listing.split("\0") if path]
    except (OSError, subprocess.CalledProcessError):
        paths = [os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
                 for folder, _, names in os.walk(root) for name in names]
    prefixes = tuple(folder + "/" for folder in folders)
    return sorted({path for path in paths
                   if path.endswith(tuple(suffixes)) and path.startswith(prefixes)
                   and os.path.isfile(os.path.join(root, path))})
