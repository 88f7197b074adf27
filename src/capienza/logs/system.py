"""What the operating system, container, cluster and disk say: kills, exhausted host memory, full disks, launchers."""

from __future__ import annotations

from capienza.logs.said import said

ROWS = (
    said(
        "host.kernel-oom",
        "out of memory: killed process | out of memory: kill process | oom-kill: | memory cgroup out of memory "
        "| oom_reaper | invoked oom-killer",
        cause="host_ram",
        memory="host",
    ),
    said(
        "host.oomkilled",
        "oomkilled | oom killed | detected 1 oom | oom-kill event | oom_kill event | exceeded job memory limit "
        "| exceeded memory limit | systemd-oomd | killed by the cgroup out-of-memory | due to memory pressure "
        "| ray.exceptions.outofmemoryerror | node running low on memory | after using all available ram | "
        "exceeds the memory usage threshold | tasks failed due to insufficient memory | pod was evicted | low "
        "on resource: memory",
        cause="host_ram",
        memory="host",
    ),
    said(
        "host.killed",
        "killed",
        r"(?:^|[\]\s|>:])(?:\d+ )?Killed\s*(?:$|\d|python|\(core)|: \d+ Killed\b",
        cause="host_ram",
        memory="host",
        detail="killed",
    ),
    said(
        "host.sigkill",
        "sigkill | signal: killed | signal 9 | exit code 137 | exited with code 137 | exitcode: -9 | exit code: 137 | "
        "return code = -9 | exit status -9 | exit code -9 | exit status 137 | killed by signal: killed | exitcode -9 "
        "| exitcode 137 | exitcode: 137 | code=137",
        r"(?!.*sigkill_handler)(?!.*DataLoader)",
        rank="error",
        cause="host_ram",
        memory="host",
        detail="killed",
    ),
    said(
        "host.cannot-allocate",
        "cannot allocate memory | not enough memory resources | errno 12] | std::bad_alloc | insufficient "
        "memory (attempted | malloc failed",
        r"(?!.*warning)",
        cause="host_ram",
        memory="host",
    ),
    said(
        "host.numpy",
        "unable to allocate",
        r"unable to allocate <requested>(?: for an array)",
        cause="host_ram",
        memory="host",
    ),
    said(
        "host.memoryerror",
        "memoryerror",
        r"(?:^|[\s.])_?(?:Array)?MemoryError\b",
        rank="error",
        cause="host_ram",
        memory="host",
    ),
    said(
        "host.lua",
        "not enough memory: you tried to allocate",
        r"tried to allocate <requested>",
        cause="host_ram",
        memory="host",
    ),
    said(
        "cluster.evicted-disk",
        "low on resource: ephemeral-storage | exceeds the total limit of containers | ephemeral local storage usage",
        r"ephemeral",
        cause="disk",
        memory="no",
    ),
    said(
        "cluster.unschedulable",
        "insufficient nvidia.com | insufficient amd.com | failedscheduling | unschedulable | reqnodenotavail | "
        "requested node configuration is not available",
        phase="startup",
        cause="configuration",
        memory="no",
    ),
    said(
        "cluster.image",
        "imagepullbackoff | errimagepull | createcontainerconfigerror | invalidimagename | failedmount",
        phase="startup",
        cause="not_memory",
        memory="no",
    ),
    said(
        "arguments.refused",
        "error: invalid value | error: unexpected argument | error: the following required arguments | error: the "
        "following arguments are required | error: unrecognized arguments | omegaconf.errors | hydra.errors | "
        "missingconfigexception | pull model manifest",
        rank="error",
        phase="startup",
        cause="configuration",
        memory="no",
    ),
    said(
        "cluster.cancelled",
        "due to time limit | due to preemption | cancelled at | deadlineexceeded",
        r"due to|CANCELLED AT|DeadlineExceeded",
        rank="error",
        cause="not_memory",
        memory="no",
    ),
    # Data loading.
    said(
        "data.shm",
        "out of shared memory | killed by signal: bus error | insufficient shared memory | unable to write to "
        "file </torch_ | unable to mmap | unable to open shared memory object",
        phase="data",
        cause="host_ram",
        memory="host",
    ),
    said(
        "data.killed",
        "dataloader worker",
        r"DataLoader worker \(pid \d+\) is killed by signal: (?:Killed|Aborted)",
        phase="data",
        cause="host_ram",
        memory="host",
    ),
    said(
        "data.segfault",
        "dataloader worker",
        r"DataLoader worker \(pid \d+\) is killed by signal: (?:Segm|Floating|Illegal|Termin)",
        phase="data",
        cause="not_memory",
        memory="no",
    ),
    said(
        "data.exited",
        "dataloader worker",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) exited unexpectedly",
        rank="error",
        phase="data",
    ),
    said(
        "data.files",
        "too many open files | received 0 items of ancdata",
        phase="data",
        cause="not_memory",
        memory="no",
    ),
    said(
        "data.shape",
        "unable to create tensor, you should probably | too many dimensions 'str' | asking to pad but the "
        "tokenizer | text input must be of type | column names don't match | schema at index | stack expects "
        "each tensor to be equal size | expected sequence of length | datasetgenerationerror | arrowinvalid",
        phase="data",
        cause="not_memory",
        memory="no",
    ),
    said(
        "data.timeout",
        "dataloader timed out",
        phase="data",
        cause="not_memory",
        memory="no",
    ),
    # Disk.
    said(
        "disk.full",
        "no space left on device | disk quota exceeded | errno 28] | errno 122] | os error 28 | there is not "
        "enough space on the disk | disk full | not enough space on disk",
        cause="disk",
        memory="no",
    ),
    said(
        "disk.hub",
        "not enough free disk space",
        r"Not enough free disk space(?:.{0,200}?file size is: <requested>)?(?:.{0,400}?only has <free> free)?",
        phase="load",
        cause="disk",
        memory="no",
        is_fatal=None,
        is_decimal=True,
        is_wrapped=True,
    ),
    said(
        "disk.read",
        "errno 5] | input/output error",
        rank="error",
        cause="disk",
        memory="no",
    ),
    # Network and files before the load.
    said(
        "hub.refused",
        "gatedrepoerror | repositorynotfounderror | 401 client error | 403 client error | 404 client error | "
        "cannot access gated repo | trying to access a gated repo | is not a valid model identifier | we couldn't "
        "connect to | "
        "localentrynotfounderror | entrynotfounderror | revisionnotfounderror | maxretryerror | consistency "
        "check failed | does not appear to have a file named | is not a local folder | incompletereaderror | "
        "429 client error | hferror | hfhubhttperror | offlinemodeisenabled | max retries exceeded | name or "
        "service not known | getaddrinfo failed | failed to resolve | nameresolutionerror | temporary failure "
        "in name resolution",
        phase="startup",
        cause="not_memory",
        memory="no",
        rank="error",
    ),
    said(
        "hub.timeout",
        "readtimeout | read timed out | connecttimeout",
        phase="startup",
        cause="not_memory",
        memory="no",
        rank="error",
    ),
    # Crashes without a reason.
    said(
        "crash.segfault",
        "segmentation fault | sigsegv | signal 11",
        rank="error",
        cause="not_memory",
        memory="no",
    ),
    said(
        "crash.bus",
        "bus error | sigbus",
        rank="error",
    ),
    said(
        "crash.abort",
        "double free or corruption | free(): invalid pointer | munmap_chunk() | corrupted size vs. prev_size | "
        "sigabrt | core dumped | malloc(): ",
        rank="consequence",
    ),
    # Launchers: what failed is said elsewhere.
    said(
        "launcher.status",
        "returned non-zero exit status | childfailederror | exits with return code = | failed (exitcode: | "
        "killing subprocess | exited with exit code | exited with code | process exited unexpectedly | raised "
        "the following exception | srun: error | primary job  terminated | sending process | workerdied | "
        "actordiederror | the actor died unexpectedly | npm err! | command terminated with exit code | "
        "torch.multiprocessing.spawn.processexitedexception | make: *** | crashloopbackoff",
        r"(?!.*code[ =]+0\b)",
        rank="consequence",
    ),
    said(
        "launcher.sigterm",
        "sigterm | signal 15 | exit code 143",
        rank="consequence",
        memory="no",
    ),
    said(
        "user.interrupt",
        "keyboardinterrupt",
        rank="error",
        cause="not_memory",
        memory="no",
    ),
)
