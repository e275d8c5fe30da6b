#pragma once

#include "base/machine/resource_usage.hpp"
#include "device/feed.hpp"
#include "events/records.hpp"
#include "stage/registry.hpp"
#include "train/measure/auto_settings.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace trainctl::engine {

/// The choices of the run that is resumed or evaluated. They determine the order of additions, and
/// so the exact results.
struct EarlierChoices {
  std::optional<int> threads;
  double threads_taken = 0;  // see ThreadChoice::taken
  std::optional<bool> channels_last;
};

/// The input for choosing the number of CPU threads and the memory format in this process.
struct ProbeContext {
  const spec::Experiment& experiment;
  const stage::Catalog& catalog;
  stage::ModelContext model;
  at::Device device = at::kCPU;
  int local_world_size = 1;
  EarlierChoices before = {};
  int devices = 1;     // that share each batch, see data_parallel_devices()
  bool trains = true;  // false: a CPU is not probed for its memory format
};

/// Probes up to three times, until no other process uses the cores during the probe, but not again
/// if `may_repeat` returns false. Returns the last choice and the share of the cores that others
/// used.
template <class Meter = CoreUseMeter, class Probe>
auto probe_when_quiet(
    const Probe& probe, const std::function<bool()>& may_repeat = [] { return true; }) {
  constexpr int kMostProbes = 3;
  for (int probes = 1;; ++probes) {
    const Meter others;
    auto choice = probe();
    const double taken = others.taken();
    if (taken == 0 || probes == kMostProbes || !may_repeat())
      return std::pair(std::move(choice), taken);
  }
}

/// Returns random samples and targets that fit the model and the loss.
device::DeviceBatch made_up_batch(const stage::ModelContext& model, std::int64_t rows,
                                  at::Device device);

/// Does the same for Task::step(), which gets images of the data set if the model makes images.
device::DeviceBatch made_up_samples(const stage::ModelContext& model, std::int64_t rows,
                                    at::Device device);

/// Returns a function that runs forward and backward pass of a throwaway model on random data of
/// the run's shape, as many samples as the device gets of a batch, and waits for the device. Draws
/// random numbers: set the seed afterward.
std::function<void()> throwaway_step(const ProbeContext& context);

/// Sets and returns trainer.num_threads. For `auto` it is the number of the resumed run if there
/// are enough cores, else the result of a short probe with a throwaway model. Rank 0 probes for
/// all, because the number determines the order of additions. Draws random numbers, too.
train::ThreadChoice choose_threads(const ProbeContext& context, dist::Communicator& communicator);

/// Returns a warning if other processes used the cores while the number of threads was chosen.
std::optional<events::Warning> contention_warning(const events::RunStarted& started);

/// Returns trainer.channels_last. For `auto` it is the choice of the resumed run, else that of
/// train::choose_layout() on a GPU or train::probe_layout() on a CPU with the current number of
/// threads. Rank 0 chooses for all. Draws random numbers: set the seed afterward.
train::LayoutChoice resolve_layout(const ProbeContext& context, dist::Communicator& communicator);

}  // namespace trainctl::engine
