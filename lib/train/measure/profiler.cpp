#include "train/measure/profiler.hpp"

#include "base/files.hpp"
#include "base/machine/host_waits.hpp"
#include "base/numbers.hpp"

#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

namespace trainctl::train {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

ProfilerConfig config_of(const spec::Profiler& options) {
  return ProfilerConfig(ProfilerState::KINETO, options.record_shapes, options.profile_memory,
                        /*with_stack=*/false, options.with_flops, /*with_modules=*/false);
}

std::set<ActivityType> activities_on(at::Device device) {
  if (device.is_cuda()) return {ActivityType::CPU, ActivityType::CUDA};
  return {ActivityType::CPU};
}

std::vector<OperatorCall> calls_of(const kineto::ProfilerResult& result) {
  std::vector<OperatorCall> calls;
  for (const kineto::KinetoEvent& event : result.events()) {
    OperatorCall call;
    call.name = event.name();
    if (event.hasShapes()) call.shapes.assign(event.shapes().begin(), event.shapes().end());
    call.thread = event.startThreadId();
    call.on_device = event.deviceType() != at::kCPU;
    call.start_ns = event.startNs();
    call.end_ns = event.startNs() + event.durationNs();
    call.flops = event.flops();
    call.bytes = event.nBytes();
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace

ProfilerObserver::~ProfilerObserver() {
  if (state_ == State::records) (void)kineto::disableProfiler();
}

/// Counts as checkpoint time, because files may be written here.
void ProfilerObserver::on_step_begin(LoopState& /*state*/) {
  const PhaseScope scope(phases_, Part::checkpoint);
  if (state_ == State::done) return;
  const std::int64_t step = step_++;
  if (layers_) layers_->end_step();
  if (state_ == State::waits && step >= options_.wait) {
    kineto::prepareProfiler(config_of(options_), activities_on(device_));
    state_ = State::warms_up;
  }
  if (state_ == State::warms_up && step >= options_.wait + options_.warmup) start();
  if (state_ == State::records && step >= options_.wait + options_.warmup + options_.active) stop();
}

/// Writes what was recorded if the run ends within the recorded steps.
void ProfilerObserver::on_run_end(LoopState& state) {
  if (state_ == State::records) {
    layers_->end_step();
    stop();
  }
  if (state_ == State::done) return;
  const std::int64_t steps = state.position.global_step;
  session_.emit(events::Warning{
      fmt::format("no profile was written: the run ended after {} step{}, before the first step to "
                  "record (profiler.wait is {}, profiler.warmup is {})",
                  steps, plural(steps), options_.wait, options_.warmup),
      {}});
}

void ProfilerObserver::start() {
  layers_.emplace(session_.model, device_, session_.clock);  // first, because it must end last
  kineto::enableProfiler(config_of(options_), activities_on(device_));
  state_ = State::records;
}

void ProfilerObserver::stop() {
  if (device_.is_cuda()) {
    count_host_wait("end of the profile");
    at::detail::getCUDAHooks().deviceSynchronize(device_.index());
  }
  const auto result = kineto::disableProfiler();
  state_ = State::done;
  const std::filesystem::path folder = session_.run_dir / "profile";
  make_folder(folder);
  result->save(folder / "trace.json");
  const std::vector<OperatorRow> rows = operator_rows(calls_of(*result));
  write_atomically(folder / "operators.csv", operators_as_csv(rows));
  write_atomically(folder / "operators.txt", operators_as_text(merge_shapes(rows)));
  const LayerTableHeader head{.steps = layers_->steps(), .on_device = device_.is_cuda()};
  const std::vector<LayerRow> layers = layers_->finish();
  layers_.reset();
  write_atomically(folder / "layers.csv", layers_as_csv(layers));
  write_atomically(folder / "layers.txt", layers_as_text(layers, head));
}

namespace {

constexpr double kMsOfNs = 1e-6;

/// Returns 0 if the end of the call was not recorded.
std::uint64_t duration_ns(const OperatorCall& call) {
  return call.end_ns > call.start_ns ? call.end_ns - call.start_ns : 0;
}

std::string text_of(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::vector<std::string> parts;
  for (const auto& shape : shapes) parts.push_back(shape_text(shape));
  return fmt::format("{}", fmt::join(parts, " "));
}

/// Time and memory of each call, without its children. Time in which children overlap is subtracted
/// from the parent once.
struct Own {
  std::uint64_t ns = 0;
  std::int64_t bytes = 0;
};

struct OpenCall {
  std::size_t call = 0;
  std::uint64_t covered_to_ns = 0;  // end of the children so far, or the start of the call
};

std::vector<Own> own_shares(const std::vector<OperatorCall>& calls) {
  std::vector<Own> own(calls.size());
  std::vector<OpenCall> open;  // the calls that enclose the next one
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const OperatorCall& call = calls[i];
    const auto encloses = [&](const OperatorCall& outer) {
      return outer.thread == call.thread && outer.on_device == call.on_device &&
             outer.end_ns >= call.end_ns;
    };
    while (!open.empty() && !encloses(calls[open.back().call])) open.pop_back();
    if (call.name == kMemoryCall) {
      if (!open.empty()) own[open.back().call].bytes += call.bytes;
      continue;
    }
    own[i].ns = duration_ns(call);
    if (!open.empty()) {
      auto& [outer, covered] = open.back();
      own[outer].ns -= call.end_ns - std::min(std::max(covered, call.start_ns), call.end_ns);
      covered = std::max(covered, call.end_ns);
    }
    open.push_back({i, call.start_ns});
  }
  return own;
}

void add(OperatorRow& to, const OperatorRow& row) {
  to.calls += row.calls;
  to.self_ms += row.self_ms;
  to.total_ms += row.total_ms;
  to.gflops += row.gflops;
  to.mbytes += row.mbytes;
}

std::vector<OperatorRow> sorted(const std::map<std::string, OperatorRow>& by_key) {
  std::vector<OperatorRow> rows;
  for (const auto& [key, row] : by_key) rows.push_back(row);
  std::ranges::stable_sort(rows, std::greater<>(), &OperatorRow::self_ms);
  return rows;
}

}  // namespace

std::vector<OperatorRow> operator_rows(std::vector<OperatorCall> calls) {
  std::ranges::stable_sort(calls, {}, [](const OperatorCall& call) {
    return std::tuple(call.on_device, call.thread, call.start_ns, ~call.end_ns);
  });
  const std::vector<Own> own = own_shares(calls);
  std::map<std::string, OperatorRow> by_key;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const OperatorCall& call = calls[i];
    if (call.name == kMemoryCall) continue;
    const std::string shapes = text_of(call.shapes);
    OperatorRow& row = by_key[fmt::format("{}\n{}\n{}", call.name, call.on_device, shapes)];
    row.name = call.name;
    row.shapes = shapes;
    row.on_device = call.on_device;
    add(row, {.calls = 1,
              .self_ms = static_cast<double>(own[i].ns) * kMsOfNs,
              .total_ms = static_cast<double>(duration_ns(call)) * kMsOfNs,
              .gflops = static_cast<double>(call.flops) * 1e-9,
              .mbytes = static_cast<double>(own[i].bytes) * 1e-6});
  }
  return sorted(by_key);
}

std::vector<OperatorRow> merge_shapes(const std::vector<OperatorRow>& rows) {
  std::map<std::string, OperatorRow> by_key;
  for (const OperatorRow& row : rows) {
    OperatorRow& merged = by_key[fmt::format("{}\n{}", row.name, row.on_device)];
    merged.name = row.name;
    merged.on_device = row.on_device;
    add(merged, row);
  }
  return sorted(by_key);
}

std::string operators_as_csv(const std::vector<OperatorRow>& rows) {
  std::string text = "operator,device,shapes,calls,self_ms,total_ms,gflop,mb\n";
  for (const OperatorRow& row : rows) {
    text += fmt::format("{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g}\n", csv_quoted(row.name),
                        row.on_device ? "gpu" : "cpu", csv_quoted(row.shapes), row.calls,
                        row.self_ms, row.total_ms, row.gflops, row.mbytes);
  }
  return text;
}

std::string operators_as_text(const std::vector<OperatorRow>& rows) {
  constexpr std::size_t kShown = 40;
  constexpr std::size_t kNameWidth = 48;
  double all = 0;
  for (const OperatorRow& row : rows) all += row.self_ms;
  std::string text =
      fmt::format("{:<{}} {:>3} {:>7} {:>10} {:>6} {:>10} {:>10} {:>10}\n", "operator", kNameWidth,
                  "on", "calls", "self ms", "self", "total ms", "GFLOP", "MB");
  for (std::size_t i = 0; i < std::min(kShown, rows.size()); ++i) {
    const OperatorRow& row = rows[i];
    text += fmt::format("{:<{}.{}} {:>3} {:>7} {:>10.3f} {:>5.1f}% {:>10.3f} {:>10.3f} {:>10.3f}\n",
                        row.name, kNameWidth, kNameWidth, row.on_device ? "gpu" : "cpu", row.calls,
                        row.self_ms, all > 0 ? 100 * row.self_ms / all : 0, row.total_ms,
                        row.gflops, row.mbytes);
  }
  if (rows.size() > kShown)
    text += fmt::format("... and {} more in operators.csv\n", rows.size() - kShown);
  return text;
}

}  // namespace trainctl::train
