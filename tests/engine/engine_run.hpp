#pragma once

#include "base/files.hpp"
#include "engine/entry.h"
#include "events/pipe.hpp"
#include "support/temp_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

extern "C" int trainctl_engine_v1(const TrainctlEngineRequest* request);

// Runs the engine in the process of the test.

namespace engine_run {

using namespace trainctl;

inline constexpr const char* kSmall = R"(name: small
seed: 1
dataset:
  train: { type: synthetic_digits, split: train, samples: 300 }
  val: { type: synthetic_digits, split: test, samples: 100 }
loader: { batch_size: 32 }
model: { type: mlp, hidden: [16] }
optimizer: { type: adam, lr: 0.01 }
metrics: [accuracy]
trainer: { accelerator: cpu, max_epochs: 2, num_threads: 1 }
)";

struct Ended {
  int code = 0;
  std::vector<events::Event> events;

  template <class Event>
  [[nodiscard]] const Event* find() const {
    for (const auto& event : events) {
      if (const auto* one = std::get_if<Event>(&event)) return one;
    }
    return nullptr;
  }
};

/// Avoids `+`, for which GCC 12 reports a false out-of-bounds write.
inline std::string small_with(const char* more) { return fmt::format("{}{}", kSmall, more); }

/// Runs the engine in this process; events go to a file instead of a pipe.
inline Ended run_engine(const TempFolder& folder, const std::string& config, int stop_signal = 0,
                        const char* mode = "train", const char* accelerator = nullptr) {
  std::filesystem::create_directories(folder / "logs");
  if (!config.empty()) std::ofstream(folder / "config.resolved.yaml") << config;
  const std::string path = (folder / "events").string();
  const Fd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const volatile int stop = stop_signal;
  const TrainctlEngineRequest request{.run_dir = folder.path().c_str(),
                                      .mode = mode,
                                      .rank = 0,
                                      .world_size = 1,
                                      .local_rank = 0,
                                      .local_world_size = 1,
                                      .event_fd = out.get(),
                                      .heartbeat_fd = -1,
                                      .store_fd = -1,
                                      .stop_signal = &stop,
                                      .accelerator = accelerator};
  Ended ended;
  ended.code = trainctl_engine_v1(&request);
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) ended.events.push_back(events::decode(line));
  return ended;
}

}  // namespace engine_run
