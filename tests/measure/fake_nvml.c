/* NVML's symbols without a GPU: every answer is looked up in the file that FAKE_NVML names, at every call.
 *
 * A line is "key=value". gpu0.name, gpu0.uuid, gpu0.total, gpu0.used; gpu0.procs=PID:BYTES,PID:- ; gpu0.mig=1 with
 * gpu0.mig1.name and so on for an instance; NAME.error=CODE lets a call fail, for all GPUs or gpu0.NAME.error for one.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process_t;
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7

static int lookup(const char *key, char *out, size_t size) {
  const char *path = getenv("FAKE_NVML");
  FILE *file = path ? fopen(path, "r") : NULL;
  char line[4096];
  int found = 0;
  size_t length = strlen(key);
  if (!file) return 0;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, key, length) && line[length] == '=') {
      snprintf(out, size, "%s", line + length + 1);
      found = 1;
    }
  }
  fclose(file);
  return found;
}
static unsigned long long number(const char *key, unsigned long long otherwise) {
  char text[64];
  return lookup(key, text, sizeof text) ? strtoull(text, NULL, 10) : otherwise;
}
/* A handle is 1 + 100 * GPU + (0, or 1 + instance). */
static void prefix(void *handle, char *out, size_t size) {
  unsigned long value = (unsigned long)(uintptr_t)handle - 1;
  if (value % 100) snprintf(out, size, "gpu%lu.mig%lu", value / 100, value % 100 - 1);
  else snprintf(out, size, "gpu%lu", value / 100);
}
static unsigned long long of(void *handle, const char *name, unsigned long long otherwise) {
  char key[128], start[32];
  prefix(handle, start, sizeof start);
  snprintf(key, sizeof key, "%s.%s", start, name);
  return number(key, otherwise);
}
static int refused(void *handle, const char *call) {
  char key[128];
  snprintf(key, sizeof key, "%s.error", call);
  int code = (int)number(key, 0);
  return code || !handle ? code : (int)of(handle, key, 0);
}
static int text_of(void *handle, const char *name, char *out, unsigned int size) {
  char key[128], start[32];
  prefix(handle, start, sizeof start);
  snprintf(key, sizeof key, "%s.%s", start, name);
  return lookup(key, out, size) ? 0 : NOT_SUPPORTED;
}

int nvmlInitWithFlags(unsigned int flags) { (void)flags; return refused(NULL, "init"); }
int nvmlInit_v2(void) { return refused(NULL, "init"); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) {
  switch (code) {
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 9: return "Driver Not Loaded";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
  }
}
int nvmlSystemGetDriverVersion(char *out, unsigned int size) {
  return lookup("driver", out, size) ? 0 : NOT_SUPPORTED;
}
int nvmlSystemGetCudaDriverVersion(int *out) { *out = (int)number("cuda", 12040); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }
int nvmlDeviceGetCount_v2(unsigned int *out) { *out = (unsigned int)number("count", 0); return refused(NULL, "count"); }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **out) {
  *out = (void *)(uintptr_t)(1 + 100 * index);
  return refused(*out, "handle");
}
int nvmlDeviceGetName(void *handle, char *out, unsigned int size) { return text_of(handle, "name", out, size); }
int nvmlDeviceGetUUID(void *handle, char *out, unsigned int size) { return text_of(handle, "uuid", out, size); }
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *out) {
  int code = refused(handle, "memory");
  out->total = of(handle, "total", 0);
  out->used = of(handle, "used", 0);
  out->free = out->total - out->used;
  return code;
}
int nvmlDeviceGetMigMode(void *handle, unsigned int *current, unsigned int *pending) {
  unsigned long long mode = of(handle, "mig", 9);
  *current = *pending = (unsigned int)mode;
  return mode == 9 ? NOT_SUPPORTED : 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned int *out) { (void)handle; *out = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned int index, void **out) {
  char name[96];
  *out = (void *)((uintptr_t)handle + 1 + index);
  return text_of(*out, "name", name, sizeof name) ? NOT_FOUND : 0;
}
int nvmlDeviceGetEccMode(void *handle, unsigned int *current, unsigned int *pending) {
  *current = *pending = (unsigned int)of(handle, "ecc", 0);
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
  *major = (int)of(handle, "major", 8);
  *minor = (int)of(handle, "minor", 9);
  return 0;
}
static int listed(void *handle, const char *name, unsigned int *count, process_t *out) {
  char text[2048], *place, *item;
  unsigned int found = 0, room = out ? *count : 0;
  int code = refused(handle, name);
  if (code) return code;
  if (text_of(handle, name, text, sizeof text)) { *count = 0; return 0; }
  for (item = strtok_r(text, ",", &place); item; item = strtok_r(NULL, ",", &place), found++) {
    char *colon = strchr(item, ':');
    if (found < room && colon) {
      memset(&out[found], 0, sizeof *out);
      out[found].pid = (unsigned int)strtoul(item, NULL, 10);
      out[found].used = colon[1] == '-' ? (unsigned long long)-1 : strtoull(colon + 1, NULL, 10);
    }
  }
  *count = found;
  return found > room ? INSUFFICIENT_SIZE : 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, process_t *out) {
  return listed(handle, "procs", count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned int *count, process_t *out) {
  return listed(handle, "graphics", count, out);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *handle, unsigned int *count, process_t *out) {
  return listed(handle, "mps", count, out);
}
