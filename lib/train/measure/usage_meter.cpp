#include "train/measure/usage_meter.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::train {
namespace {

constexpr double kShortest = 0.05;  // shortest epoch that is reported, in seconds
constexpr double kInterval = 1;     // seconds between two samples of a GPU
constexpr const char* kLoaderThread = "trainctl-loader";

template <class Value>
std::optional<double> difference(const std::optional<Value>& now,
                                 const std::optional<Value>& before) {
  if (!now || !before || *now < *before) return std::nullopt;  // a counter may be reset
  return static_cast<double>(*now - *before);
}

std::optional<double> share(const std::optional<double>& seconds, double span_s) {
  if (!seconds) return std::nullopt;
  return std::clamp(*seconds / span_s, 0.0, 1.0);
}

std::optional<double> rate(const std::optional<double>& amount, double span_s) {
  if (!amount) return std::nullopt;
  return *amount / span_s;
}

std::optional<double> throttled_share(const UsageCounters& now, const UsageCounters& before) {
  const auto periods = difference(now.periods, before.periods);
  const auto throttled = difference(now.throttled, before.throttled);
  if (!periods || !throttled) return std::nullopt;
  return *periods > 0 ? std::min(*throttled / *periods, 1.0) : 0.0;
}

}  // namespace

UsageMeter::UsageMeter(int cores, std::unique_ptr<GpuMeter> gpu)
    : cores_(cores), gpu_(std::move(gpu)) {}

void UsageMeter::begin() {
  if (before_) return;
  before_ = read_usage(kLoaderThread);
  cores_before_ = read_core_times();
  if (gpu_) gpu_before_ = gpu_->counters();
}

void UsageMeter::step(double now) {
  if (!gpu_ || (sampled_at_ && now - *sampled_at_ < kInterval)) return;
  sampled_at_ = now;
  const GpuMoment moment = gpu_->moment();
  ++samples_;
  hot_ += moment.heat ? 1 : 0;
  throttled_ += moment.brake ? 1 : 0;
  if (!moment.busy_percent) return;
  util_sum_ += *moment.busy_percent;
  ++util_samples_;
}

std::optional<events::Usage> UsageMeter::take(double wall_s) {
  span_s_ += std::max(wall_s, 0.0);
  if (!before_ || span_s_ < kShortest) return std::nullopt;
  const UsageCounters now = read_usage(kLoaderThread);
  events::Usage usage;
  usage.span_s = span_s_;
  usage.cores = cores_;
  usage.cpu_stalled = share(difference(now.cpu_stalled_s, before_->cpu_stalled_s), span_s_);
  usage.io_stalled = share(difference(now.io_stalled_s, before_->io_stalled_s), span_s_);
  usage.memory_stalled =
      share(difference(now.memory_stalled_s, before_->memory_stalled_s), span_s_);
  usage.throttled = throttled_share(now, *before_);
  usage.major_faults_s = static_cast<double>(now.major_faults - before_->major_faults) / span_s_;
  usage.involuntary_switches_s =
      static_cast<double>(now.involuntary_switches - before_->involuntary_switches) / span_s_;
  usage.loader_threads = now.threads;
  usage.loader_cores = rate(difference(now.thread_cpu_s, before_->thread_cpu_s), span_s_);
  usage.memory_taken = memory_taken();
  add_cores(usage);
  add_gpu(usage);
  before_ = now;
  span_s_ = 0;
  return usage;
}

void UsageMeter::add_cores(events::Usage& usage) {
  const auto now = read_core_times();
  const auto use = now && cores_before_ ? core_use(*cores_before_, *now) : std::nullopt;
  cores_before_ = now;
  if (!use) return;
  usage.outside_cores = use->outside;
  usage.stolen_cores = use->stolen;
  usage.idle_cores = use->idle;
  usage.core_wait = use->waited;
}

void UsageMeter::add_gpu(events::Usage& usage) {
  if (!gpu_) return;
  const GpuCounters now = gpu_->counters();
  usage.gpu_power_w = rate(difference(now.joules, gpu_before_.joules), span_s_);
  usage.gpu_power_limit_w = gpu_->power_limit();
  if (const auto bytes = rate(difference(now.pcie_bytes, gpu_before_.pcie_bytes), span_s_))
    usage.pcie_mb_s = *bytes / 1e6;
  if (2 * throttled_ > samples_) usage.gpu_throttle = "power";
  if (2 * hot_ > samples_) usage.gpu_throttle = "heat";
  samples_ = hot_ = throttled_ = 0;
  gpu_before_ = now;
}

std::optional<double> UsageMeter::take_gpu_util() {
  if (util_samples_ == 0) return std::nullopt;
  return std::exchange(util_sum_, 0) / std::exchange(util_samples_, 0);
}

UsageObserver::UsageObserver(const Session& session, const Options& options, const Phases& phases)
    : options_(options),
      phases_(phases),
      meter_(session.cores, make_gpu_meter(device::gpu_info(options.device).pci_bus)) {}

void UsageObserver::on_epoch_begin(LoopState& /*state*/) {
  cpu_before_ = device::cpu_seconds();
  read_before_ = device::storage_bytes_read();
  meter_.begin();
}

void UsageObserver::on_epoch_report(LoopState& state) {
  events::Timing& timing = state.report.timing;
  const double wall = std::max(timing.wall_s, 1e-9);
  timing.cpu_percent = 100 * (device::cpu_seconds() - cpu_before_) / wall;
  timing.rss_mb = device::peak_rss_mb();
  timing.gpu_mem_mb = device::cuda_peak_memory_mb(options_.device);
  timing.read_mb_s = static_cast<double>(device::storage_bytes_read() - read_before_) / 1e6 / wall;
  timing.gpu_util = meter_.take_gpu_util();
  state.report.usage = meter_.take(timing.wall_s);
}

}  // namespace trainctl::train
