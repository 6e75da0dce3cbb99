#!/bin/sh
# A Slurm cluster of this machine alone, for as long as a command runs: to try `stopwav … --on slurm` without a cluster.
#
#     scripts/slurm_here.sh stopwav grid fake --on slurm
#
# Slurm is Debian's, unpacked and not installed, in $SLURM_HERE or ~/.cache/stopwav-slurm. Needs root (its daemon starts
# jobs) and apt. Without authentication: for a machine of your own.
set -eu

root=${SLURM_HERE:-$HOME/.cache/stopwav-slurm}
libraries=$root/usr/lib/$(uname -m)-linux-gnu
export SLURM_CONF="$root/slurm.conf"
export LD_LIBRARY_PATH="$libraries/slurm-wlm:$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH="$root/usr/bin:$root/usr/sbin:$PATH"

if [ ! -x "$root/usr/sbin/slurmctld-wlm" ]; then
    mkdir -p "$root/packages"
    (
        cd "$root/packages"
        apt-get download --quiet slurm-client slurmctld slurmd slurm-wlm-basic-plugins libhwloc15 libmunge2 liblua5.1-0
        for package in *.deb; do dpkg-deb --extract "$package" "$root"; done
    ) >&2
fi

mkdir -p "$root/state" "$root/spool"
host=$(hostname -s)
cat > "$SLURM_CONF" <<CONF
ClusterName=here
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/none
CredType=cred/none
PluginDir=$libraries/slurm-wlm
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool
SlurmctldPidFile=$root/slurmctld.pid
SlurmdPidFile=$root/slurmd.pid
SlurmctldLogFile=$root/slurmctld.log
SlurmdLogFile=$root/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=here Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF

stop() {
    for daemon in slurmd slurmctld; do
        [ ! -s "$root/$daemon.pid" ] || kill "$(cat "$root/$daemon.pid")" 2> /dev/null || true
    done
}
trap stop EXIT INT TERM
slurmctld-wlm -c
slurmd-wlm -c -d "$root/usr/sbin/slurmstepd-wlm"
for _ in $(seq 100); do
    [ "$(sinfo --noheader --format %T 2> /dev/null)" != idle ] || break
    sleep 0.2
done
"$@"
