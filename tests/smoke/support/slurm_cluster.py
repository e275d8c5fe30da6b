"""Starts a Slurm of one node on this machine: munged, slurmctld and slurmd in a temporary folder and in namespaces that end with
the test.

The network is a veth pair, because Slurm accepts no loopback address; nothing is visible outside the namespaces. Needs root."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

PROGRAMS = ["munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "scancel", "unshare", "ip"]
ADDRESS, HOST = "10.77.0.1", "slurmnode"
INSIDE = "TRAINCTL_SLURM_INSIDE"


def why_not():
    """Returns why the cluster cannot run here, or an empty string."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"{', '.join(missing)} is missing: scripts/setup --checks installs slurm-wlm and munge"
    if os.geteuid() != 0:
        return "the daemons of Slurm need root"
    trial = subprocess.run([*NAMESPACES, "ip", "link", "add", "slurm0", "type", "veth", "peer", "name", "slurm1"],
                           capture_output=True, text=True)
    return f"no namespaces here: {trial.stderr.strip()}" if trial.returncode != 0 else ""


NAMESPACES = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]


def enter():
    """Runs this program again inside the namespaces, and exits with its status."""
    environment = {**os.environ, INSIDE: "1", "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    # Every job would inherit these variables of another launcher.
    for name in list(environment):
        if name.startswith(("SLURM", "OMPI_", "PMI", "TORCHELASTIC_")):
            del environment[name]
    sys.exit(subprocess.run([*NAMESPACES, sys.executable, "-B", *sys.argv], env=environment).returncode)


def is_inside():
    return INSIDE in os.environ


def make_network(folder):
    for words in (["link", "set", "lo", "up"], ["link", "add", "slurm0", "type", "veth", "peer", "name", "slurm1"],
                  ["address", "add", f"{ADDRESS}/24", "dev", "slurm0"], ["link", "set", "slurm0", "up"],
                  ["link", "set", "slurm1", "up"]):
        subprocess.run(["ip", *words], check=True)
    socket.sethostname(HOST)
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n")
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)


CONFIG = """\
ClusterName=smoke
SlurmctldHost={host}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=1,sched_min_interval=100000
SlurmctldPort=6817
SlurmdPort=6818
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ReturnToService=2
KillWait=30
JobRequeue=1
UnkillableStepTimeout=60
SlurmdParameters=config_overrides
NodeName={host} NodeAddr={address} CPUs={cpus} CoresPerSocket={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """The constructor starts the daemons; they end with the namespaces or with stop()."""

    def __init__(self, folder):
        self.folder = folder
        self.daemons = []
        make_network(folder)
        for name in ("munge", "state", "spool"):
            (folder / name).mkdir(mode=0o755)
        folder.chmod(0o755)
        self.config = folder / "slurm.conf"
        # Two tasks need two cores, even if the machine has fewer.
        self.config.write_text(CONFIG.format(host=HOST, address=ADDRESS, folder=folder, cpus=max(2, os.cpu_count())))
        (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        os.environ["SLURM_CONF"] = str(self.config)
        self.start_munge()
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D", "-N", HOST)
        self.wait(lambda: "idle" in self.ask("scontrol", "-o", "show", "node", HOST).lower(), "the node is idle", 90)

    def start(self, *words):
        log = open(self.folder / f"{words[0]}.out", "wb")
        self.daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def start_munge(self):
        munge = self.folder / "munge"
        key = munge / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        files = [f"--{option}={munge / name}" for option, name in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))]
        self.start("munged", "--foreground", "--force", *files)
        self.wait(lambda: (munge / "socket").exists(), "munged listens", 30)

    def ask(self, *words):
        return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout

    def wait(self, holds, what, seconds):
        deadline = time.monotonic() + seconds
        while not holds():
            ended = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"not in {seconds} s: {what}; ended: {ended}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self):
        files = [*self.folder.glob("*.out"), *self.folder.glob("slurm*.log"), *self.folder.glob("munge/log")]
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-2000:]}" for file in files)

    def job(self, number):
        """Returns the fields that scontrol shows for a job."""
        text = self.ask("scontrol", "-o", "show", "job", str(number))
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
