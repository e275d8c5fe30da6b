// A CUDA driver whose results are set by the environment. It is loaded instead of libcuda.so.1.

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace {

int number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

extern "C" int cuInit(unsigned /*flags*/) {
  const char* how = std::getenv("FAKE_CUDA");
  if (how != nullptr && std::string_view(how) == "hang") ::pause();
  if (how != nullptr && std::string_view(how) == "crash") std::abort();
  return number("FAKE_CUDA_INIT");
}

extern "C" int cuDeviceGetCount(int* count) {
  *count = number("FAKE_CUDA_COUNT");
  return 0;
}

extern "C" int cuGetErrorString(int code, const char** text) {
  if (code != 803) return 1;
  *text = "system has unsupported display driver / cuda driver combination";
  return 0;
}
