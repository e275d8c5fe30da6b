// An NVTX tool, which NVTX loads through NVTX_INJECTION64_PATH. It appends "PID push NAME" and "PID
// pop" to the file $NVTX_RECORD. The numbers and the struct come from nvtx3/nvtxDetail/nvtxTypes.h
// of CUDA 13, which libtorch's wheels do not contain.

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

using Function = void (*)();
using GetExportTable = const void* (*)(std::uint32_t table);

constexpr std::uint32_t kCallbacksTable = 1;
constexpr int kCoreModule = 1;
constexpr unsigned kRangePushA = 9;
constexpr unsigned kRangePop = 11;

struct CallbacksTable {
  std::size_t struct_size;
  int (*get_module_functions)(int module, Function*** functions, unsigned* size);
};

int depth = 0;

void record(const std::string& what) {
  const char* path = std::getenv("NVTX_RECORD");
  if (path == nullptr) return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const std::string line = std::to_string(::getpid()) + " " + what + "\n";
  if (file < 0 || ::write(file, line.data(), line.size()) < 0) std::abort();
  ::close(file);
}

int range_push(const char* message) {
  record(std::string("push ") + message);
  return depth++;
}

int range_pop() {
  record("pop");
  return --depth;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    GetExportTable get_export_table) {
  const auto* callbacks = static_cast<const CallbacksTable*>(get_export_table(kCallbacksTable));
  Function** functions = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->get_module_functions(kCoreModule, &functions, &size) == 0 || size <= kRangePop)
    return 0;
  *functions[kRangePushA] = reinterpret_cast<Function>(&range_push);
  *functions[kRangePop] = reinterpret_cast<Function>(&range_pop);
  return 1;
}
