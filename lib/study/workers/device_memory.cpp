#include "study/workers/device_memory.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/nvml.hpp"
#include "base/strings.hpp"
#include "launch/process/isolated_process.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace trainctl::study {
namespace {

constexpr unsigned kMostSeconds = 20;                       // of an answer
constexpr std::uint64_t kSlack = std::uint64_t{256} << 20;  // that others may have taken meanwhile

/// Numbers with spaces between; 0 for a GPU whose memory is not told.
std::string ask(const std::string& library) {
  ::alarm(kMostSeconds);  // ends a driver that hangs
  std::string text;
  for (const GpuState& gpu : Nvml(library).gpus())
    text += fmt::format("{}{}", text.empty() ? "" : " ", gpu.free_bytes);
  return text;
}

bool is_back(const FreeMemory& before, const FreeMemory& now) {
  if (now.size() != before.size()) return now.empty();  // nobody tells any more
  return std::ranges::equal(before, now, [](std::uint64_t was, std::uint64_t is) {
    return is + std::max(kSlack, was / 50) >= was;
  });
}

}  // namespace

FreeMemory free_device_memory(const std::string& library) {
  FreeMemory found;
  try {
    const std::string text = launch::run_isolated([&] { return ask(library); }).text;
    for (const std::string& word : split(text, ' ')) {
      std::uint64_t bytes = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), bytes);
      if (error != std::errc() || end != word.data() + word.size()) return {};
      found.push_back(bytes);
    }
  } catch (const Error&) {  // the wait is a courtesy to the next start
    return {};
  }
  return found;
}

FreeMemory memory_before(const spec::Trainer& trainer) {
  const bool starts_again = trainer.max_restarts > 0 || !trainer.on_divergence.empty();
  if (trainer.accelerator == spec::Accelerator::cpu || !starts_again) return {};
  return read_machine().gpus.empty() ? FreeMemory() : free_device_memory();
}

bool await_memory(const FreeMemory& before, const MemoryWait& wait) {
  if (before.empty()) return true;
  const double deadline = wait.clock.now() + wait.most_s;
  while (!is_back(before, wait.probe())) {
    if (wait.is_stopped() || wait.clock.now() >= deadline) return false;
    wait.pause();
  }
  return true;
}

}  // namespace trainctl::study
