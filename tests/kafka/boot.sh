#!/bin/sh
# The first process of the namespaces of systemd.py: mount what they have, and become systemd. $1: folder of the test
set -e
mount --make-rprivate /
mount -t proc proc /proc
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
for folder in etc opt var; do
    mkdir -p /run/kept/$folder /run/work/$folder
    mount -t overlay overlay -o lowerdir=/$folder,upperdir=/run/kept/$folder,workdir=/run/work/$folder /$folder
done
while read -r from to; do
    mkdir -p "$to"
    mount --rbind "$from" "$to"
done < "$1/places"
mount -t tmpfs tmpfs /tmp
cd /opt/trial
echo 'stream-osr:x:10001:10001::/:/bin/false' >> /etc/passwd
echo 'stream-osr:x:10001:' >> /etc/group
mkdir -p /opt/stream-osr/bin /etc/stream-osr /var/cache/stream-osr
cp command /opt/stream-osr/bin/stream-osr
cp -r compiled/. /var/cache/stream-osr
exec env -i PATH="$PATH" container=other SYSTEMD_UNIT_PATH=/opt/trial/units /lib/systemd/systemd --system \
    --unit=default.target --log-target=console --show-status=no
