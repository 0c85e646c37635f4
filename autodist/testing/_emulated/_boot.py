"""How an emulated host starts: the program that becomes its first process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

# $1 directory of the host's files, $2 of the users' ~/.ssh, $3 the host's name; then the directories to lay over this
# machine's (each with its number before it), `--`, and those to share with it.
# Its disk is in memory and belongs to its own mount namespace: it is gone when the last process is.
BOOT = r"""
set -eu
files=$1 ssh=$2 name=$3; shift 3
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$files/disk"
cd "$files/disk"
mkdir root
lay() {
  mkdir -p "upper$1" "work$1" "root$2"
  mount -t overlay overlay -o "lowerdir=$2,upperdir=upper$1,workdir=work$1" "root$2"
}
lay root /
mount -t proc proc root/proc
mount -t sysfs sysfs root/sys
mount --rbind /dev root/dev
mount -t tmpfs -o mode=1777 tmpfs root/dev/shm
mount -t tmpfs -o mode=1777 tmpfs root/tmp
mount -t tmpfs -o mode=755 tmpfs root/run
mount -t tmpfs -o mode=755 tmpfs root/root
mount -t tmpfs -o mode=755 tmpfs root/home
while [ "$1" != -- ]; do lay "$1" "$2"; shift 2; done
shift
for shared in "$@"; do mkdir -p "root$shared"; mount --bind "$shared" "root$shared"; done

cp -R "$files/etc" root/
mkdir -p root/run/sshd
grep -q '^trainer:' root/etc/passwd || {
  echo 'trainer:x:4242:4242::/home/trainer:/bin/bash' >> root/etc/passwd
  echo 'trainer:x:4242:' >> root/etc/group
  echo 'trainer:*:19000:0:99999:7:::' >> root/etc/shadow
}
sed -i 's/^root:[^:]*:/root:*:/' root/etc/shadow
for home in /root /home/trainer; do
  mkdir -p "root$home"
  cp -R "$ssh" "root$home/.ssh"
  chmod 700 "root$home/.ssh"
  chmod 600 "root$home/.ssh/id_ed25519"
done
chown -R 4242:4242 root/home/trainer
hostname "$name"

cd root
mkdir -p .autodist-old
pivot_root . .autodist-old
cd /
umount -l /.autodist-old
rmdir /.autodist-old
exec "$SSHD" -D -e
"""

_FRESH = ("/proc", "/sys", "/dev", "/run", "/tmp", "/root", "/home")
"""Folders that a host does not have from this machine."""


def boot_arguments(files: Path, ssh: Path, name: str, binds: Sequence[Path]) -> list[str]:
    """The arguments of :data:`BOOT`."""
    layers = [text for number, path in enumerate(_layers()) for text in (str(number), str(path))]
    return [str(files), str(ssh), name, *layers, "--", *(str(path) for path in binds)]


def _layers() -> list[Path]:
    """Folders that an overlay of ``/`` would not show: other disks, and Python and AutoDist in homes and ``/tmp``."""
    disks = {path for path in _mounted_disks() if not _is_below(path, _FRESH)}
    here = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[3])
    hidden = {path for program in here for path in (program, program.resolve()) if _is_below(path, _FRESH)}
    return sorted(disks) + sorted(path for path in hidden if not _is_below(path.parent, [str(p) for p in hidden]))


def _mounted_disks() -> list[Path]:
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        path = Path(line.split()[4].encode().decode("unicode_escape"))  # blanks are written as octal numbers
        if path != Path("/") and path.is_dir() and " - autofs " not in line:
            found.append(path)
    return found


def _is_below(path: Path, directories: Sequence[str]) -> bool:
    return any(path.is_relative_to(directory) for directory in directories)
