#include "train/debug/numerics_guard.hpp"

#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "device/host_read.hpp"
#include "train/debug/tensor_stats.hpp"
#include "train/loop/evaluator.hpp"
#include "train/state/weights.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <system_error>
#include <utility>

namespace trainctl::train {
namespace {

/// The reasons why parts of a dump are missing; an empty string means that the part exists.
struct Missing {
  std::string unrepeated;  // why the step could not be repeated at once
  std::string unwritten;   // why no file was written for --replay-step
};

std::string lines_of(const char* title, const std::vector<events::TensorSummary>& all) {
  constexpr std::size_t kMostShown = 40;
  std::string text = fmt::format("\n{}\n", title);
  const std::size_t shown = std::min(all.size(), kMostShown);
  for (std::size_t i = 0; i < shown; ++i) {
    text +=
        fmt::format("  {:<44} {:>5} [{}]  NaN {}  Inf {}  min {:.6g}  max {:.6g}  mean {:.6g}\n",
                    printable(all[i].name), all[i].dtype, fmt::join(all[i].shape, ", "),
                    all[i].nan_count, all[i].inf_count, all[i].min, all[i].max, all[i].mean);
  }
  if (shown < all.size()) text += fmt::format("  and {} more in the JSON\n", all.size() - shown);
  return text;
}

std::string place_of(const StepRecord& record) {
  return fmt::format(
      "{} at step {} of epoch {}\n\n"
      "rank {} of {}, batch {} of the epoch ({} rows); lr {:g}, precision {}, loss scale {:g}, "
      "device {}\n",
      record.cause, with_thousands(record.global_step), record.epoch + 1, record.rank,
      record.world_size, record.batch, record.rows, record.lr, record.precision, record.loss_scale,
      record.device);
}

std::string found(const Numerics& numerics, const Missing& missing) {
  const StepRecord& record = numerics.record;
  if (!missing.unrepeated.empty())
    return fmt::format("The step could not be repeated: {}\n", printable(missing.unrepeated));
  if (!record.repeated) return "The divergence was not found in a step, so no batch was saved.\n";
  if (!record.first.empty())
    return fmt::format("The first value that is not finite: {}\nThe batch's loss is {}.\n",
                       record.first, record.loss);
  const auto& tensors = numerics.tensors;  // offending_first() put the non-finite ones first
  const bool is_summed = !tensors.empty() && tensors.front().name.starts_with("summed ");
  if (!tensors.empty() && is_bad(tensors.front()) && !is_summed)
    return fmt::format("The first tensor that is not finite: {}\nThe batch's loss is {}.\n",
                       printable(tensors.front().name), record.loss);
  const char* where = record.world_size > 1 || record.accumulate > 1
                          ? "the cause is another batch or rank, or the sum of the gradients"
                          : "the repeated step may differ from the original step";
  return fmt::format("When this batch is repeated alone, all values are finite (loss {}): {}.\n",
                     record.loss, where);
}

std::string caveats(const StepRecord& record, const Missing& missing) {
  std::string text;
  if (!record.weights_before)
    text += "The weights were saved after the optimizer step, perhaps after later steps.\n";
  if (!record.random_kept) text += "The RNG state is not that of the step: dropout may differ.\n";
  if (!missing.unwritten.empty())
    text += fmt::format("No file was saved to repeat the step: {}\n", printable(missing.unwritten));
  return text;
}

constexpr const char* kAdvice =
    "\nWhat to do\n  A weight is not finite or very large: the previous step was too large. Lower "
    "optimizer.lr, warm up, or set trainer.gradient_clip_val.\n"
    "  An input is not finite: check the samples above and the transforms.\n"
    "  Weights and inputs are finite: the layer above overflows its number format. "
    "Try trainer.precision=32-true.\n"
    "  To test a change on this batch:\n    trainctl run CONFIG [key=value ...] --replay-step {}\n";

/// Returns the text of report.txt: the step, the rows and the tensors that are not finite.
std::string report_text(const Numerics& numerics, const Missing& missing) {
  std::string text = place_of(numerics.record);
  text += found(numerics, missing) + caveats(numerics.record, missing);
  const std::vector<std::string> rows = bad_rows(numerics);
  if (!rows.empty()) text += "\nSamples whose loss is not finite\n";
  for (const std::string& row : rows) text += "  " + row + "\n";
  if (!numerics.samples.empty()) {
    std::vector<std::string> names;
    for (const data::RowSample& sample : numerics.samples) names.push_back(printable(sample.name));
    text += fmt::format("\nSamples: {}\n", shortened(names, 20));
  }
  text += lines_of("Tensors (those with non-finite values come first)", numerics.tensors);
  if (!numerics.layers.empty()) text += lines_of("Outputs of the forward pass", numerics.layers);
  return text;
}

/// Writes report.txt and report.json, on other ranks report.rank_N.txt and .json. Throws
/// Error(resource).
void write_report(const fs::path& folder, const Numerics& numerics, const Missing& missing) {
  const std::int64_t rank = numerics.record.rank;
  const std::string stem = rank == 0 ? "report" : fmt::format("report.rank_{}", rank);
  const std::string advice = fmt::format(fmt::runtime(kAdvice), shell_word(folder.string()));
  write_atomically(folder / (stem + ".txt"), report_text(numerics, missing) + advice);
  Json json = meta_of(numerics);
  json["bad_rows"] = bad_rows(numerics);
  json["unrepeated"] = missing.unrepeated;
  json["unwritten"] = missing.unwritten;
  write_atomically(folder / (stem + ".json"), to_pretty(json) + "\n");
}

constexpr std::uint64_t kMostConfig = 4 << 20;
constexpr std::uint64_t kSpaceLeft = 64 << 20;  // on the disk, for the run's last files

std::string read_if_there(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  try {
    return read_file(path, kMostConfig, ReadFailure::resource);
  } catch (const Error&) {
    return {};
  }
}

std::string version_in(const std::string& manifest) {
  const Json json = parse_json(manifest);
  const bool known = json.is_object() && json.contains("version") && json["version"].is_string();
  return known ? json["version"].get<std::string>() : std::string();
}

std::uint64_t room_on_disk(const fs::path& folder) {
  std::error_code failure;
  const fs::space_info space = fs::space(folder, failure);
  return failure || space.available <= kSpaceLeft ? 0 : space.available - kSpaceLeft;
}

device::DeviceBatch copy_of(const device::DeviceBatch& batch) {
  return device::with_tensors(batch, [](const at::Tensor& tensor) { return tensor.clone(); });
}

/// Sets the generators to `states` while it lives, then restores them.
class RngStateGuard {
 public:
  RngStateGuard(at::Device device, const std::vector<stage::NamedTensor>& states)
      : device_(device), now_(random_states(device)) {
    if (!states.empty()) set_random_states(device, states);
  }
  ~RngStateGuard() { set_random_states(device_, now_); }
  RngStateGuard(const RngStateGuard&) = delete;
  RngStateGuard& operator=(const RngStateGuard&) = delete;

 private:
  at::Device device_;
  std::vector<stage::NamedTensor> now_;
};

void add_gradients(const stage::Model& model, std::vector<events::TensorSummary>& tensors) {
  for (const auto& [name, parameter] : model.parameters()) {
    if (!parameter.grad().defined()) continue;
    events::TensorSummary summary = summary_of("summed gradient of " + name, parameter.grad());
    if (is_bad(summary)) tensors.push_back(std::move(summary));
  }
}

constexpr const char* kLowerRate = "lower optimizer.lr or set trainer.gradient_clip_val";
constexpr const char* kFindLayer =
    "lower optimizer.lr, set trainer.gradient_clip_val, or find the layer with "
    "trainer.detect_anomaly=true";

}  // namespace

fs::path diverged_folder(std::int64_t global_step) {
  return fs::path("diverged") / fmt::format("step={:06}", global_step);
}

NumericsDump::NumericsDump(const Session& session, const Options& options)
    : session_(session), options_(options), random_(options.device) {}

void NumericsDump::begin(const data::Batch& batch, const device::DeviceBatch& on_device,
                         double lr) {
  batch_ = &batch;
  on_device_ = &on_device;
  lr_ = lr;
  random_.take();
}

std::string NumericsDump::write(const Divergence& divergence) noexcept {
  try {
    return write_all(divergence);
  } catch (const std::exception& error) {
    try {
      const std::string why = error.what();
      return fmt::format("; the step could not be saved for --replay-step: {}",
                         printable(why.substr(0, why.find('\n'))));
    } catch (...) {
      return {};
    }
  } catch (...) {
    return {};
  }
}

StepRecord NumericsDump::record_of(const Divergence& divergence) const {
  const Machine machine = read_machine();
  const data::Roles roles = data::roles_of(session_.train.layout());
  const auto place = session_.communicator.rank_info();
  StepRecord record;
  record.rank = place.rank;
  record.world_size = place.world_size;
  record.cause = divergence.cause;
  record.epoch = divergence.position.epoch;
  record.global_step = divergence.position.global_step - divergence.steps_ago;
  record.accumulate = options_.accumulate;
  record.lr = lr_;
  record.loss_scale = divergence.loss_scale;
  record.precision = enum_names(options_.forward.precision)
                         .at(static_cast<std::size_t>(options_.forward.precision));
  record.channels_last = options_.forward.channels_last;
  record.device = options_.device.str();
  record.cpu = machine.cpu_model + " " + join(machine.cpu_features, " ");
  record.torch = TORCH_VERSION;
  record.version = version_in(read_if_there(session_.run_dir / "manifest.json"));
  record.num_threads = at::get_num_threads();
  record.inputs = enum_names(roles.kind.inputs).at(static_cast<std::size_t>(roles.kind.inputs));
  record.targets = enum_names(roles.kind.targets).at(static_cast<std::size_t>(roles.kind.targets));
  record.input_shape.assign(roles.input_shape.begin(), roles.input_shape.end());
  record.vocab_size = roles.kind.vocab_size;
  record.padding_id = roles.kind.padding_id;
  record.outputs = roles.outputs(session_.train.classes());
  record.weights_before = divergence.weights_kept;
  record.buffers_before =
      options_.may_skip > 0 || options_.forward.precision == spec::Precision::fp16_mixed;
  record.config = read_if_there(session_.run_dir / "config.resolved.yaml");
  record.config_hash = to_hex(hash_bytes(std::as_bytes(std::span(record.config))));
  return record;
}

/// Takes the current batch. If the divergence was noticed late, reloads an earlier batch instead:
/// the loader is deterministic.
void NumericsDump::take_batch(const Divergence& divergence, Numerics& numerics) {
  numerics.record.random_kept = false;
  if (batch_ == nullptr) return;
  if (divergence.steps_ago > 1) {
    const std::int64_t index = batch_->index - (divergence.steps_ago - 1) * options_.accumulate;
    if (index >= 0) reload(index, numerics);
    return;
  }
  numerics.batch = copy_of(*on_device_);
  numerics.samples = session_.train.samples_of(*batch_);
  numerics.record.batch = batch_->index;
  numerics.random = random_.states();
  numerics.record.random_kept = true;
}

void NumericsDump::reload(std::int64_t index, Numerics& numerics) {
  const std::int64_t epoch = batch_->epoch;
  end();  // the next call of the loader overwrites the current batch
  session_.train.start_epoch(epoch, index);
  const data::Batch* batch = session_.train.next();
  if (batch == nullptr) return;
  const auto feed = make_feed(evaluation_of(session_, session_.train, "train"), options_);
  numerics.batch = copy_of(feed->put(*batch));
  numerics.samples = session_.train.samples_of(*batch);
  numerics.record.batch = batch->index;
}

void NumericsDump::repeat(Numerics& numerics) {
  StepRecord& record = numerics.record;
  record.rows = numerics.batch.valid;
  if (!numerics.batch.inputs.defined()) {
    for (const auto& [name, tensor] : numerics.weights)
      numerics.tensors.push_back(summary_of(name, tensor));
    return;
  }
  RepeatedStep step;
  {
    const RngStateGuard random(options_.device, numerics.random);
    step = repeat_step({session_.model, session_.loss, session_.task, samples_in(numerics)},
                       numerics.batch, {options_.forward, record.loss_scale});
  }
  record.repeated = true;
  record.loss = device::value_of<double>(step.loss, "repeated step");
  record.first = step.first;
  record.digests = digests_of(step);
  numerics.row_losses = step.row_losses;
  numerics.layers = std::move(step.layers);
  numerics.tensors = summaries_of(session_.model, numerics.batch, step);
}

std::string NumericsDump::write_all(const Divergence& divergence) {
  Numerics numerics;
  numerics.record = record_of(divergence);
  const fs::path folder = session_.run_dir / diverged_folder(numerics.record.global_step);
  const std::string reference =
      fmt::format("; see {0} (repeat the step with --replay-step {0})", printable(folder.string()));
  take_batch(divergence, numerics);
  numerics.weights = weights_of(session_.model);
  std::string unrepeated;
  try {
    repeat(numerics);
  } catch (const std::exception& error) {  // a dump without the repetition is still useful
    unrepeated = error.what();
  }
  const bool is_own = !numerics.record.repeated || std::ranges::any_of(numerics.tensors, is_bad);
  const std::int64_t rank = numerics.record.rank;
  if (rank != 0 && !is_own) return reference;
  add_gradients(session_.model, numerics.tensors);
  numerics.tensors = offending_first(std::move(numerics.tensors), 200);
  make_folder(folder);
  const fs::path part = folder / fmt::format("rank_{}.part", rank);
  std::string unwritten;
  try {
    if (write_numerics(part, numerics, room_on_disk(folder)) == 0)
      unwritten = "the disk has too little space for the weights and the batch";
  } catch (const Error& error) {
    unwritten = error.what();
  }
  write_report(folder, numerics, {.unrepeated = unrepeated, .unwritten = unwritten});
  return unwritten.empty() ? reference : fmt::format("; see {}", printable(folder.string()));
}

NumericsGuard::NumericsGuard(const Session& session, const Options& options, const Phases& phases,
                             const StepRunner& step)
    : session_(session), options_(options), phases_(phases), step_(step), dump_(session, options) {}

void NumericsGuard::check(StepRunner::Result result, const LoopState& state) {
  if (result == StepRunner::Result::not_finite) fail({"the training loss is not finite"}, state);
  if (result == StepRunner::Result::gradient_not_finite)
    fail({"the gradient is not finite"}, state);
}

void NumericsGuard::check_loss(const char* split, double loss, const LoopState& state) {
  if (!std::isfinite(loss)) fail({fmt::format("the {} loss is {}", split, loss)}, state);
}

/// The last step's loss was computed before its update, so a non-finite update shows only here.
void NumericsGuard::check_weights(const LoopState& state) {
  const std::string name = not_finite(weights_of(session_.model));
  if (!name.empty()) fail({fmt::format("'{}' contains values that are not finite", name)}, state);
}

std::optional<DivergenceCause> skipped_too_often(const StepRunner& step, const Options& options,
                                                 std::int64_t skipped, std::int64_t later) {
  if (step.scaler() == nullptr || skipped <= options.may_skip) return std::nullopt;
  if (step.scaler()->stops_after_non_finite())
    return DivergenceCause{"the gradient is not finite", skipped + later};
  return DivergenceCause{
      fmt::format("the gradients of {} step{} in a row were not finite", skipped, plural(skipped))};
}

void NumericsGuard::check_skipped(const LoopState& state) {
  if (step_.scaler() == nullptr) return;
  const auto cause = skipped_too_often(step_, options_, step_.scaler()->most_skipped_in_a_row());
  if (cause) fail(*cause, state);
}

/// On a GPU, ProgressReporter reads the counter, together with the losses of a log point.
void NumericsGuard::on_step_end(LoopState& state) {
  if (options_.device.is_cpu()) check_skipped(state);
}

void NumericsGuard::on_train_epoch_end(LoopState& state) {
  if (options_.may_skip > 0 && step_.meter().weight() == 0)
    fail({"no step of the epoch had a finite loss"}, state);
  check_skipped(state);
  dump_.end();
}

void NumericsGuard::on_run_end(LoopState& state) {
  if (step_.scaler() == nullptr || session_.communicator.rank_info().rank != 0) return;
  const std::int64_t skipped = step_.scaler()->skipped();
  if (skipped == 0) return;
  std::string message =
      fmt::format("{} of {} steps were skipped because a gradient was not finite",
                  with_thousands(skipped), with_thousands(state.position.global_step));
  if (options_.forward.precision == spec::Precision::fp16_mixed)
    message += fmt::format("; the loss scale is now {:g}", step_.scaler()->current_scale());
  session_.emit(events::Warning{message, {}});
}

/// A GPU reports late, but its flag stays set: the number of steps since then identifies the step.
void NumericsGuard::fail(const DivergenceCause& cause, const LoopState& state) {
  phases_.stamp(phases_.current());  // so that the supervisor reports this step
  const std::int64_t steps_ago = cause.steps_ago;
  const std::string where =
      fmt::format("{} at step {} of epoch {}", cause.what,
                  with_thousands(state.position.global_step - steps_ago), state.position.epoch + 1);
  if (cause.from_stopper)
    throw Error(ErrorKind::diverged, fmt::format("{}\nhint: {}", where, kLowerRate));
  std::string seen;
  if (steps_ago > 0)
    seen = fmt::format(", detected after step {}; the weights {} step {}",
                       with_thousands(state.position.global_step),
                       step_.keeps_weights() ? "are from before" : "include the update of",
                       with_thousands(state.position.global_step - steps_ago));
  const std::string anomaly = step_.anomaly();
  if (!anomaly.empty()) seen += fmt::format("; the first value that is not finite: {}", anomaly);
  const double scale = step_.scaler() != nullptr ? step_.scaler()->current_scale() : 1;
  const std::string dump = dump_.write(
      {cause.what, state.position, steps_ago, scale, steps_ago == 0 || step_.keeps_weights()});
  throw Error(ErrorKind::diverged, fmt::format("{}{}{}\nhint: {}", where, seen, dump,
                                               options_.detect_anomaly ? kLowerRate : kFindLayer));
}

}  // namespace trainctl::train
