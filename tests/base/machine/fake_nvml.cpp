// An NVML with a healthy GPU 0 and a GPU 1 that has every problem. It is loaded instead of
// libnvidia-ml.so.1.

#include <cstdint>
#include <cstring>

namespace {

bool is_bad(void* device) { return reinterpret_cast<std::uintptr_t>(device) == 2; }

int answer(unsigned* value, unsigned result) {
  *value = result;
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { return answer(count, 2); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(std::uintptr_t{index} + 1);
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned /*size*/) {
  std::strcpy(text, is_bad(device) ? "GPU-bb" : "GPU-aa");
  return 0;
}

int nvmlDeviceGetCudaComputeCapability(void* /*device*/, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}

int nvmlDeviceGetPersistenceMode(void* device, unsigned* mode) {
  return answer(mode, is_bad(device) ? 0 : 1);
}

int nvmlDeviceGetEccMode(void* /*device*/, unsigned* now, unsigned* later) {
  return answer(now, 1) + answer(later, 1);
}

int nvmlDeviceGetTotalEccErrors(void* device, unsigned kind, unsigned counter,
                                unsigned long long* count) {
  if (kind != 1 || counter != 0) return 2;
  *count = is_bad(device) ? 5 : 0;
  return 0;
}

int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) {
  if (!is_bad(device)) return 3;  // not supported
  return answer(corrected, 0) + answer(uncorrected, 1) + answer(pending, 1) + answer(failed, 0);
}

int nvmlDeviceGetTemperature(void* /*device*/, unsigned sensor, unsigned* degrees) {
  return sensor == 0 ? answer(degrees, 41) : 2;
}

int nvmlDeviceGetComputeMode(void* device, unsigned* mode) {
  return answer(mode, is_bad(device) ? 2 : 0);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = is_bad(device) ? 0x40 | 0x80 : 0x1;  // hardware slowdown; idle
  return 0;
}

}  // extern "C"
