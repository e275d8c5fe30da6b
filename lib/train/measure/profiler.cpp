#include "train/measure/profiler.hpp"

#include "base/files.hpp"
#include "train/measure/operator_table.hpp"

#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>
#include <utility>

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

Profiler::Profiler(const spec::Profiler& options, at::Device device, const Session& session)
    : options_(options), device_(device), session_(session) {}

Profiler::~Profiler() {
  if (state_ == State::records) (void)kineto::disableProfiler();
}

void Profiler::before_step() {
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

void Profiler::finish() {
  if (state_ != State::records) return;
  layers_->end_step();
  stop();
}

void Profiler::start() {
  layers_.emplace(session_.model, device_, session_.clock);  // first, since it ends last
  kineto::enableProfiler(config_of(options_), activities_on(device_));
  state_ = State::records;
}

void Profiler::stop() {
  if (device_.is_cuda()) at::detail::getCUDAHooks().deviceSynchronize(device_.index());
  const auto result = kineto::disableProfiler();
  state_ = State::done;
  const std::filesystem::path folder = session_.run_dir / "profile";
  make_folder(folder);
  result->save(folder / "trace.json");
  const std::vector<OperatorRow> rows = operator_rows(calls_of(*result));
  write_atomically(folder / "operators.csv", operators_as_csv(rows));
  write_atomically(folder / "operators.txt", operators_as_text(merge_shapes(rows)));
  write_layers(folder);
  written_ = folder;
}

void Profiler::write_layers(const std::filesystem::path& folder) {
  const LayerTableHead head{.steps = layers_->steps(), .on_device = device_.is_cuda()};
  const std::vector<LayerRow> rows = layers_->finish();
  layers_.reset();
  write_atomically(folder / "layers.csv", layers_as_csv(rows));
  write_atomically(folder / "layers.txt", layers_as_text(rows, head));
}

}  // namespace trainctl::train
