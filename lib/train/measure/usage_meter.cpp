#include "train/measure/usage_meter.hpp"

#include "device/device.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace trainctl::train {
namespace {

constexpr double kShortest = 0.05;            // shortest epoch that is reported, in seconds
constexpr std::chrono::seconds kInterval{1};  // between two readings of a GPU
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

void read_gpu(const GpuMeter& gpu, double now, GpuTotals& totals) {
  const GpuMoment moment = gpu.moment();
  totals.at = now;
  ++totals.samples;
  totals.hot += moment.heat ? 1 : 0;
  totals.throttled += moment.brake ? 1 : 0;
  totals.counters = gpu.counters();
  totals.power_limit = gpu.power_limit();
  if (!moment.busy_percent) return;
  totals.util_sum += *moment.busy_percent;
  ++totals.util_samples;
}

GpuSampler::GpuSampler(std::unique_ptr<GpuMeter> gpu, const Clock& clock)
    : gpu_(std::move(gpu)), clock_(clock) {
  read_gpu(*gpu_, clock_.now(), totals_);
  thread_ = std::thread([this] { run(); });
}

GpuSampler::~GpuSampler() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

GpuTotals GpuSampler::totals() {
  const std::lock_guard lock(mutex_);
  wanted_ = true;
  wake_.notify_one();
  return totals_;
}

void GpuSampler::run() {
  ::pthread_setname_np(::pthread_self(), "trainctl-nvml");
  std::unique_lock lock(mutex_);
  GpuTotals totals = totals_;  // only this thread changes them from here on
  const auto is_due = [this] { return stops_ || wanted_; };
  while (true) {
    wake_.wait_for(lock, kInterval, is_due);
    if (stops_) return;
    wanted_ = false;
    lock.unlock();
    read_gpu(*gpu_, clock_.now(), totals);
    lock.lock();
    totals_ = totals;
  }
}

UsageMeter::UsageMeter(int cores, ReadTotals gpu) : cores_(cores), gpu_(std::move(gpu)) {}

void UsageMeter::begin() {
  if (before_) return;
  before_ = read_usage(kLoaderThread);
  cores_before_ = read_core_times();
  if (gpu_) gpu_before_ = util_before_ = gpu_();
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
  const GpuTotals now = gpu_();
  const double span_s = now.at - gpu_before_.at;
  if (span_s <= 0) return;
  usage.gpu_power_w = rate(difference(now.counters.joules, gpu_before_.counters.joules), span_s);
  usage.gpu_power_limit_w = now.power_limit;
  const auto bytes = difference(now.counters.pcie_bytes, gpu_before_.counters.pcie_bytes);
  if (const auto bytes_s = rate(bytes, span_s)) usage.pcie_mb_s = *bytes_s / 1e6;
  const int samples = now.samples - gpu_before_.samples;
  if (2 * (now.throttled - gpu_before_.throttled) > samples) usage.gpu_throttle = "power";
  if (2 * (now.hot - gpu_before_.hot) > samples) usage.gpu_throttle = "heat";
  gpu_before_ = now;
}

std::optional<double> UsageMeter::take_gpu_util() {
  if (!gpu_) return std::nullopt;
  const GpuTotals now = gpu_();
  const GpuTotals before = std::exchange(util_before_, now);
  const int samples = now.util_samples - before.util_samples;
  if (samples == 0) return std::nullopt;
  return (now.util_sum - before.util_sum) / samples;
}

namespace {

std::unique_ptr<GpuSampler> sampler_of(at::Device device, const Clock& clock) {
  auto meter = make_gpu_meter(device::gpu_info(device).pci_bus);
  return meter ? std::make_unique<GpuSampler>(std::move(meter), clock) : nullptr;
}

UsageMeter::ReadTotals totals_of(GpuSampler* sampler) {
  if (sampler == nullptr) return nullptr;
  return [sampler] { return sampler->totals(); };
}

}  // namespace

UsageObserver::UsageObserver(const Session& session, const Options& options)
    : options_(options),
      sampler_(sampler_of(options.device, session.clock)),
      meter_(session.cores, totals_of(sampler_.get())) {}

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
