#include "study/workers/devices.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/gpus.hpp"
#include "base/machine/nvml.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/process/isolated_process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace trainctl::launch {
namespace {

// Functions of the CUDA driver, whose header is not available here; they return 0 on success.
using Init = int (*)(unsigned flags);
using Count = int (*)(int* count);
using ErrorString = int (*)(int code, const char** text);

/// Returns the message for the error code, with the driver's own text if it has one.
std::string failure_text(void* driver, int code) {
  const auto describe = reinterpret_cast<ErrorString>(::dlsym(driver, "cuGetErrorString"));
  const char* text = nullptr;
  const bool is_known = describe != nullptr && describe(code, &text) == 0 && text != nullptr;
  return fmt::format("the CUDA driver returned error {}{}", code,
                     is_known ? fmt::format(" ({})", printable(text)) : "");
}

std::string ask_driver(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fmt::format("trainctl cannot load the driver library {}", library);
  const auto init = reinterpret_cast<Init>(::dlsym(handle, "cuInit"));
  const auto count = reinterpret_cast<Count>(::dlsym(handle, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr) return fmt::format("{} is not a CUDA driver", library);
  if (const int code = init(0); code != 0) return failure_text(handle, code);
  int found = 0;
  if (const int code = count(&found); code != 0) return failure_text(handle, code);
  return std::to_string(found);
}

[[noreturn]] void answer(int fd, const std::string& library, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it exited before prctl()
  const Fd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(nowhere.get(), STDOUT_FILENO);
  ::dup2(nowhere.get(), STDERR_FILENO);
  const std::string text = ask_driver(library);
  const ssize_t written = ::write(fd, text.data(), text.size());
  ::_exit(written < 0 ? 1 : 0);
}

std::string read_answer(int fd, double timeout_s) {
  std::string text;
  std::array<char, 512> buffer{};
  const double deadline = steady_clock().now() + timeout_s;
  while (true) {
    const double left = deadline - steady_clock().now();
    pollfd ready{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left * 1000) + 1) == 0) {
      return "the CUDA driver did not answer within " + human_duration(timeout_s);
    }
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

// The wait is limited: a process in an uninterruptible wait is left and exits when that wait ends.
void reap(pid_t pid) {
  constexpr int kRounds = 2000;
  ::kill(pid, SIGKILL);
  for (int i = 0; i < kRounds && ::waitpid(pid, nullptr, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

GpuProbe parse(const std::string& text) {
  GpuProbe probe;
  if (const auto count = parse_number<int>(text)) {
    probe.count = *count;
    if (probe.count == 0) probe.problem = "the CUDA driver finds no GPU";
    return probe;
  }
  return {0, text.empty() ? "the CUDA driver crashed" : text};
}

}  // namespace

GpuProbe probe_gpus(const std::string& library, double timeout_s) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return {0, "trainctl cannot create a pipe to query the CUDA driver"};
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return {0, "trainctl cannot start a process to query the CUDA driver"};
  if (pid == 0) answer(writing.get(), library, parent);
  writing.reset();
  const std::string text = read_answer(reading.get(), timeout_s);
  reap(pid);
  return parse(text);
}

}  // namespace trainctl::launch

namespace trainctl::study {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

std::string visible_note() {
  const char* list = std::getenv(kVisible);
  return list == nullptr ? "" : fmt::format(" ({} is '{}')", kVisible, printable(list));
}

DeviceChoice on_cpu(const spec::Trainer& trainer) {
  ENSURE(config, !trainer.devices.is_list(),
         "trainer.devices lists GPUs, but the run is on CPUs, which have no numbers\nhint: write "
         "trainer.devices={} for as many processes",
         trainer.devices.value_or(1));
  return {.gpu = false, .ranks = trainer.devices.value_or(1), .visible = 0, .warning = {}};
}

/// Limits the run to the GPUs that trainer.devices lists. Their numbers count the visible GPUs.
void choose_listed(const std::vector<int>& gpus, DeviceChoice& choice) {
  const char* list = std::getenv(kVisible);
  const std::vector<std::string> visible =
      list == nullptr ? std::vector<std::string>() : split(list, ',');
  for (const int gpu : gpus) {
    ENSURE(resource, gpu < choice.visible,
           "trainer.devices lists GPU {}, but the CUDA driver finds {} GPU{}, numbered from 0{}\n"
           "hint: 'trainctl doctor' lists the GPUs",
           gpu, choice.visible, plural(choice.visible), visible_note());
    const auto index = static_cast<std::size_t>(gpu);
    choice.names += (choice.names.empty() ? "" : ",") +
                    (index < visible.size() ? visible[index] : std::to_string(gpu));
  }
  choice.gpus = gpus;
}

constexpr unsigned kMostSeconds = 20;                       // time limit for an answer
constexpr std::uint64_t kSlack = std::uint64_t{256} << 20;  // for other processes

/// Returns the free bytes separated by spaces; 0 for a GPU that does not report its memory.
std::string ask(const std::string& library) {
  ::alarm(kMostSeconds);  // kills the process if the driver hangs
  std::string text;
  for (const GpuState& gpu : Nvml(library).gpus())
    text += fmt::format("{}{}", text.empty() ? "" : " ", gpu.free_bytes);
  return text;
}

bool is_back(const FreeMemory& before, const FreeMemory& now) {
  if (now.size() != before.size()) return now.empty();  // NVML no longer answers
  return std::ranges::equal(before, now, [](std::uint64_t was, std::uint64_t is) {
    return is + std::max(kSlack, was / 50) >= was;
  });
}

}  // namespace

DeviceChoice choose_devices(const spec::Trainer& trainer, const Machine& machine,
                            const launch::ProbeGpus& probe) {
  using spec::Accelerator;
  if (trainer.accelerator == Accelerator::cpu) return on_cpu(trainer);
  const bool asked_for = trainer.accelerator == Accelerator::gpu;
  const int named = named_gpus(std::getenv(kVisible));
  if (machine.gpus.empty() && named == 0) {
    ENSURE(resource, !asked_for,
           "trainer.accelerator is gpu, but this machine has no NVIDIA device{}\nhint: use "
           "trainer.accelerator=cpu",
           visible_note());
    return on_cpu(trainer);
  }
  const launch::GpuProbe found = probe();
  if (found.count == 0) {
    ENSURE(resource, !asked_for,
           "trainer.accelerator is gpu, but {}{}\nhint: check the driver with 'trainctl doctor "
           "--gpu', or use trainer.accelerator=cpu",
           found.problem, visible_note());
    ENSURE(resource, named == 0,
           "cannot use the GPU that {} names: {}{}\nhint: check it with 'trainctl doctor --gpu', "
           "unset {}, or set trainer.accelerator=cpu",
           kVisible, found.problem, visible_note(), kVisible);
    DeviceChoice choice = on_cpu(trainer);
    choice.warning = fmt::format(
        "this machine has {} GPU{}, but {}: training on the CPU; check the driver with 'trainctl "
        "doctor --gpu', or set trainer.accelerator=cpu",
        machine.gpus.size(), plural(machine.gpus.size()), found.problem);
    return choice;
  }
  const int ranks = trainer.devices.value_or(found.count);
  DeviceChoice choice{.gpu = true, .ranks = ranks, .visible = found.count, .warning = {}};
  if (trainer.devices.is_list()) choose_listed(trainer.devices.gpus, choice);
  ENSURE(resource, ranks <= found.count,
         "trainer.devices is {}, but the CUDA driver finds {} GPU{}{}\nhint: lower trainer.devices",
         ranks, found.count, plural(found.count), visible_note());
  if (found.count < named && trainer.devices.is_auto())
    choice.warning = fmt::format("{} names {} GPUs ('{}'), but the CUDA driver finds only {}",
                                 kVisible, named, printable(std::getenv(kVisible)), found.count);
  return choice;
}

DeviceChoice devices_of_run(const spec::Experiment& experiment, const Machine& machine,
                            const launch::ProbeGpus& probe) {
  DeviceChoice choice = choose_devices(experiment.trainer, machine, probe);
  if (experiment.distributed.type != spec::Strategy::data_parallel) return choice;
  ENSURE(config, choice.gpu,
         "distributed.type is data_parallel, but this run is on CPUs; {}\nhint: set "
         "distributed.type=ddp",
         spec::kDataParallelIsSlower);
  choice.ranks = 1;
  return choice;
}

void set_devices(spec::Trainer& trainer, int count) {
  std::vector<int>& gpus = trainer.devices.gpus;
  gpus.resize(std::min(gpus.size(), static_cast<std::size_t>(count)));
  trainer.devices.value = count;
}

FreeMemory free_device_memory(const std::string& library) {
  FreeMemory found;
  try {
    const std::string text = launch::run_isolated([&] { return ask(library); }).text;
    for (const std::string& word : split(text, ' ')) {
      const auto bytes = parse_number<std::uint64_t>(word);
      if (!bytes) return {};
      found.push_back(*bytes);
    }
  } catch (const Error&) {  // waiting is optional
    return {};
  }
  return found;
}

FreeMemory memory_before(const spec::Trainer& trainer) {
  const bool starts_again = trainer.max_restarts > 0 || !trainer.on_divergence.empty();
  if (trainer.accelerator == spec::Accelerator::cpu || !starts_again) return {};
  return read_machine().gpus.empty() ? FreeMemory() : free_device_memory();
}

bool wait_for_free_memory(const FreeMemory& before, const MemoryWait& wait) {
  if (before.empty()) return true;
  const double deadline = wait.clock.now() + wait.most_s;
  while (!is_back(before, wait.probe())) {
    if (wait.is_stopped() || wait.clock.now() >= deadline) return false;
    wait.pause();
  }
  return true;
}

}  // namespace trainctl::study
