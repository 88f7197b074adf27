"""Errors of the GPU's driver, runtime and libraries, and of communication between GPUs.

Two of them carry the word memory and are no shortage of it: an illegal access (error 700) is a fault of a program, and
an ECC error one of the card.
"""

from __future__ import annotations

from capienza.logs.said import said

ROWS = (
    said(
        "cuda.oom",
        "cuda error: out of memory | cuda error 2 | cudaerrormemoryallocation | cuda_error_out_of_memory | hip "
        "error: out of memory | hiperroroutofmemory | cudamalloc failed: out of memory | hipmalloc failed: out "
        "of memory | cuda failure 2 | cuda runtime (out of memory) | error out of memory at line",
        r"^(?!.*failed to allocate \S+ \(.*from device).*(?:(?:CUDA|HIP) error: out of memory|CUDA error 2\b"
        r"|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory|(?:cuda|hip)Malloc failed: out of "
        r"memory|Cuda Runtime \(out of memory\)|Error out of memory at line)",
        memory="device",
    ),
    said(
        "cuda.no-kernel",
        "no kernel image is available | hiperrornobinaryforgpu | unable to find code object for all current "
        "devices | invalid device function",
        phase="environment",
        cause="compatibility",
        memory="no",
    ),
    said(
        "cuda.driver-old",
        "driver version is insufficient | nvidia driver on your system is too old | unsupported toolchain | "
        "forward compatibility was attempted | unsatisfied condition: cuda>=",
        phase="environment",
        cause="compatibility",
        memory="no",
    ),
    said(
        "cuda.driver-mismatch",
        "driver/library version mismatch | nvml: driver",
        phase="environment",
        cause="compatibility",
        memory="no",
    ),
    said(
        "cuda.no-device",
        "no cuda-capable device is detected | found no nvidia driver | no cuda gpus are available | torch not "
        "compiled with cuda enabled | no nvidia gpu | cuda is not available | no hip gpus are available | no "
        "gpu found | failed to initialize nvml | couldn't communicate with the nvidia driver | could not "
        "select device driver | nvidia-container-cli | failed to infer device type | no rocm-capable device | "
        "cuda not available | cuda unknown error | setting the available devices to be zero",
        phase="environment",
        cause="compatibility",
        memory="no",
        is_fatal=None,
    ),
    said(
        "cuda.invalid-device",
        "invalid device ordinal | invalid device id",
        phase="environment",
        cause="configuration",
        memory="no",
    ),
    said(
        "cuda.busy",
        "busy or unavailable",
        r"devices?(?:\(s\))? is/are busy or unavailable|all CUDA-capable devices are busy",
        phase="environment",
        cause="other_process",
        memory="no",
    ),
    said(
        "cuda.not-initialised",
        "system not yet initialized | cudaerrorsystemnotready",
        phase="environment",
        cause="compatibility",
        memory="no",
    ),
    said(
        "cuda.libraries",
        "cannot open shared object file | undefined symbol | dll load failed | version `glibc | glibcxx_ | "
        "symbol lookup error | cuda_home environment variable | nvcc not found | cuda setup failed | "
        "cadam32bit_grad_fp32 | cget_managed_ptr | cget_col_row_stats | detected cuda version | compiled with "
        "cuda | was compiled against | error: could not load library libcud | unable to load any of {libcud | "
        "requires a gpu with | ptxas fatal | ptxas error | peer access is not supported",
        r"(?!.*\bwarn)",
        phase="environment",
        cause="compatibility",
        memory="no",
    ),
    said(
        "cuda.unsupported",
        "is not compatible with the current pytorch installation",
        rank="notice",
        phase="environment",
        cause="compatibility",
        memory="no",
        is_fatal=False,
    ),
    said(
        "cuda.bitsandbytes",
        "could not find the bitsandbytes cuda binary | cuda detection failed | cuda setup failed | required "
        "library version not found: libbitsandbytes",
        phase="environment",
        cause="compatibility",
        memory="no",
    ),
    said(
        "vllm.capability",
        "bfloat16 is only supported on gpus",
        phase="startup",
        cause="compatibility",
        memory="no",
    ),
    said(
        "cuda.capability",
        "only supported on gpus with compute capability | only supports ampere gpus | does not support "
        "bfloat16 | doesn't support bf16 | your setup doesn't support bf16 | your device does not support bf16 "
        "| requires device capability | requires compute capability | minimum capability | not supported on "
        "this gpu | is not supported on your gpu | does not support fp8 | capability of at least",
        phase="environment",
        cause="compatibility",
        memory="no",
    ),
    said(
        "cuda.assert",
        "device-side assert | srcindex < srcselectdimsize | error=59 | error (59) | error=710",
        r"device-side assert|Assertion `|error[= (]+59|error=710",
        cause="not_memory",
        memory="no",
    ),
    said(
        "cuda.assertion",
        "assertion `",
        r"Assertion `[^`']*['`] failed",
        cause="not_memory",
        memory="no",
    ),
    said(
        "cuda.illegal-access",
        "illegal memory access | error 700 | error=77  | error (77) | memory access fault by gpu | misaligned "
        "address | hiperrorillegaladdress | illegal address",
        r"illegal memory access|error 700|error[= (]+77|memory access fault|misaligned address|illegal ?address",
        cause="not_memory",
        memory="no",
    ),
    said(
        "cuda.launch",
        "unspecified launch failure | illegal instruction | launch timed out | invalid configuration argument "
        "| an illegal instruction was encountered | hardware stack error | invalid program counter | too many "
        "resources requested for launch | error: invalid argument | cuda error: invalid resource handle | cuda "
        "error: operation not supported | error: initialization error | cuda error: operation not permitted",
        cause="not_memory",
        memory="no",
    ),
    said(
        "cuda.ecc",
        "uncorrectable ecc | double bit ecc | row remap | uncorrectable nvlink | nvlink error",
        phase="environment",
        cause="not_memory",
        memory="no",
    ),
    said(
        "cuda.lost",
        "fallen off the bus | gpu is lost | gpu requires reset | gsp rpc | unable to determine the device handle",
        phase="environment",
        cause="not_memory",
        memory="no",
    ),
    said(
        "cuda.xid-hardware",
        "xid",
        r"\bXid\b[^:]*(?:\([^)]*\))?:? (?:48|62|63|64|74|79|92|94|95|110|119|120|121|122|123|140|143|145|149)\b",
        phase="environment",
        cause="not_memory",
        memory="no",
    ),
    said(
        "cuda.xid",
        "xid",
        r"\bXid\b[^:]*(?:\([^)]*\))?:? \d+",
        cause="not_memory",
        memory="no",
    ),
    said(
        "cuda.cublas",
        "cublas_status_execution_failed | cublas_status_not_supported | cublas_status_invalid_value | "
        "cublas_status_internal_error | cublas_status_arch_mismatch | cudnn_status_not_supported | "
        "cudnn_status_execution_failed | cudnn_status_mapping_error | cudnn_status_bad_param | "
        "cudnn_status_version_mismatch",
        r"C\w+_STATUS_(?:EXECUTION_FAILED|NOT_SUPPORTED|INVALID_VALUE|INTERNAL_ERROR|ARCH_MISMATCH"
        r"|MAPPING_ERROR|BAD_PARAM|VERSION_MISMATCH)",
        rank="error",
        cause="not_memory",
        memory="no",
    ),
    # Communication.
    said(
        "nccl.oom",
        "nccl | cuda failure",
        r"Cuda failure (?:2 )?'?out of memory|NCCL.*cudaMalloc.*out of memory",
        phase="communication",
        memory="device",
    ),
    said(
        "nccl.shm",
        "shared memory segment | shm_open | /dev/shm/nccl",
        r"NCCL.*(?:shared memory segment|shm_open|/dev/shm)|/dev/shm/nccl",
        phase="communication",
        cause="communication",
        memory="host",
    ),
    said(
        "nccl.duplicate",
        "duplicate gpu detected",
        phase="communication",
        cause="configuration",
        memory="no",
    ),
    said(
        "nccl.failure",
        "nccl error | nccl failure | ncclunhandledcudaerror | nccl watchdog | nccl warn | ncclsystemerror | "
        "ncclinternalerror | ncclremoteerror | ncclinvalidusage | ncclinvalidargument | distbackenderror | "
        "watchdog caught collective operation timeout | nccl communicator was aborted | unhandled system error "
        "| unhandled cuda error | rcclerror",
        r"(?!.*NCCL_)(?!.*using NCCL)",
        phase="communication",
        cause="communication",
        memory="no",
        rank="error",
    ),
    said(
        "nccl.aftermath",
        "some nccl operations have failed or timed out | to avoid data inconsistency, we are taking the entire "
        "process down | heartbeat monitor timed out | monitored barrier",
        rank="error",
        phase="communication",
        cause="communication",
        memory="no",
    ),
    said(
        "dist.socket",
        "connection closed by peer | connection reset by peer | connection refused | tcpstore | "
        "rendezvoustimeouterror | rendezvousconnectionerror | socket timeout | wait timeout after | [c10d] | "
        "the client socket has | gloo/transport | timed out initializing process group | timed out after | "
        "distnetworkerror | diststoreerror",
        r"connection closed by peer|connection reset by peer|(?:c10d|tcp|gloo|socket|store|process "
        r"group).{0,120}(?:fail|refused|timed? ?out|error)|Rendezvous(?:Timeout|Connection)Error|Dist(?:Network"
        r"|Store)Error",
        rank="error",
        phase="communication",
        cause="communication",
        memory="no",
    ),
    said(
        "net.port",
        "address already in use | eaddrinuse | errno 98 | only one usage of each socket address",
        phase="startup",
        cause="not_memory",
        memory="no",
    ),
)
