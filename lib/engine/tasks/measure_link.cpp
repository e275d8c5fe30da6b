#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "device/device.hpp"
#include "dist/communicator.hpp"
#include "engine/setup/run_components.hpp"
#include "engine/tasks/tasks.hpp"
#include "events/records.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <vector>

namespace trainctl::engine {
namespace {

constexpr std::int64_t kSmallest = std::int64_t{1} << 10;
constexpr std::int64_t kLargest = std::int64_t{64} << 20;
constexpr std::int64_t kGrowth = 4;
constexpr double kSecondsOfASize = 0.5;
constexpr double kFewestSums = 5;
constexpr double kMostSums = 200;
constexpr double kTimeoutS = 60;

int stop_signal(const TrainctlEngineRequest& request) {
  return request.stop_signal != nullptr ? *request.stop_signal : 0;
}

/// One sum of a size; on a GPU with the time to look at the result.
double timed_sum(dist::Communicator& communicator, const at::Tensor& tensor) {
  const double begin = steady_clock().now();
  communicator.sum(tensor, "sum that measures the link");
  if (tensor.is_cuda()) (void)tensor.select(0, 0).item<float>();
  return steady_clock().now() - begin;
}

/// The mean over the ranks.
double shared(dist::Communicator& communicator, double value) {
  const at::Tensor sum = at::zeros({1}, at::kDouble);
  *sum.mutable_data_ptr<double>() = value;
  communicator.sum(sum, "sum of the times");
  return *sum.const_data_ptr<double>() / communicator.place().world_size;
}

/// Ranks that meet in each sum have to stop at the same one.
class Probe {
 public:
  Probe(const LinkSetup& setup, dist::Communicator& communicator)
      : setup_(setup), communicator_(communicator) {
    measured_.backend = setup.device.is_cuda() ? "nccl" : "gloo";
    measured_.device = setup.device.str();
    measured_.device_name = device::cuda_device_name(setup.device);
    measured_.ranks = communicator.place().world_size;
  }

  /// False: a signal asks some rank to stop.
  bool measure() {
    for (std::int64_t bytes = kSmallest; bytes <= kLargest; bytes *= kGrowth) {
      if (shared(communicator_, stop_signal(setup_.request)) > 0) return false;
      measure(bytes);
    }
    return true;
  }

  [[nodiscard]] const events::LinkMeasured& measured() const { return measured_; }

 private:
  void measure(std::int64_t bytes) {
    // Sums of zeros stay what they are.
    const at::Tensor tensor =
        at::zeros({bytes / static_cast<std::int64_t>(sizeof(float))},
                  at::TensorOptions().dtype(at::kFloat).device(setup_.device));
    (void)timed_sum(communicator_, tensor);
    const double warm_s = shared(communicator_, timed_sum(communicator_, tensor));
    const auto sums =
        static_cast<std::int64_t>(std::clamp(kSecondsOfASize / warm_s, kFewestSums, kMostSums));
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < sums; ++i) seconds.push_back(timed_sum(communicator_, tensor));
    measured_.bytes.push_back(bytes);
    measured_.seconds.push_back(shared(communicator_, median(seconds)));
    measured_.repeats.push_back(sums);
  }

  const LinkSetup& setup_;
  dist::Communicator& communicator_;
  events::LinkMeasured measured_;
};

}  // namespace

int measure_link(const LinkSetup& setup) {
  const TrainctlEngineRequest& request = setup.request;
  ENSURE(config, request.world_size >= 2, "a link is measured between two ranks or more");
  spec::Distributed options;
  options.timeout_s = kTimeoutS;
  const auto communicator = build_communicator(request, options, setup.device, nullptr);
  Probe probe(setup, *communicator);
  const bool whole = probe.measure();
  if (whole && request.rank == 0) setup.emit(probe.measured());
  setup.emit(events::Finished{0, 0, {}, {}, whole ? "measured" : "signal"});
  if (whole) return 0;
  return static_cast<int>(stop_signal(request) == SIGINT ? ErrorKind::interrupted
                                                         : ErrorKind::terminated);
}

}  // namespace trainctl::engine
