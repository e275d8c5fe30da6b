#pragma once

#include "base/json.hpp"
#include "events/records.hpp"

#include <fmt/format.h>

#include <concepts>
#include <type_traits>

// JSON of records, which workers send to their supervisor and supervisors send to each other. A
// record is a struct whose namespace has `each_field(record, visit)`, which calls `visit(name,
// member)` for each field, for both reading and writing. Its members are plain values, lists and
// optional values of them, and other records.

namespace trainctl::events {

template <class Given, class Record>
concept Like = std::same_as<std::remove_const_t<Given>, Record>;

/// Defines each_field() of a record. Its members are the fields, in the order of the JSON.
#define RECORD_FIELDS(Record, ...)                                          \
  void each_field(::trainctl::events::Like<Record> auto& r, auto&& visit) { \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(VISIT_FIELD, __VA_ARGS__))     \
  }
#define VISIT_FIELD(member) visit(#member, r.member);

/// Thrown if a value is not as expected. The reader of a line adds which line it is.
struct Mismatch {
  std::string expected;
};

inline void demand(bool holds, const char* expected) {
  if (!holds) throw Mismatch{expected};
}

namespace detail {
struct AnyField {
  void operator()(const char* /*name*/, auto& /*member*/) const {}
};
}  // namespace detail

template <class T>
concept Record = requires(T& record) {
  each_field(record, detail::AnyField{});
};

// ---- writing

inline Json value_of(bool value) { return value; }
inline Json value_of(int value) { return value; }
inline Json value_of(std::int64_t value) { return value; }
inline Json value_of(const std::string& value) { return value; }
Json value_of(Phase value);
/// Non-finite numbers, which JSON does not have, become "nan", "inf" and "-inf".
Json value_of(double value);
/// Returns one object, in the order of the list.
Json value_of(const Metrics& values);
template <class T>
Json value_of(const std::optional<T>& value);
template <class T>
Json value_of(const std::vector<T>& values);
template <class T>
Json value_of(const std::map<std::string, T>& values);

template <Record T>
Json value_of(const T& record) {
  Json object = Json::object();
  each_field(record, [&](const char* name, const auto& value) { object[name] = value_of(value); });
  return object;
}

template <class T>
Json value_of(const std::optional<T>& value) {
  return value ? value_of(*value) : Json(nullptr);
}

template <class T>
Json value_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(value_of(value));
  return list;
}

template <class T>
Json value_of(const std::map<std::string, T>& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values) object[key] = value_of(value);
  return object;
}

// ---- reading: each function throws Mismatch

void read(const Json& json, bool& value);
void read(const Json& json, std::int64_t& value);
void read(const Json& json, int& value);
void read(const Json& json, std::string& value);
void read(const Json& json, double& value);
void read(const Json& json, Phase& value);
void read(const Json& json, Metrics& values);
/// A phase that the object lacks is newer than the object; its time is 0.
void read(const Json& json, Timing& timing);
template <class T>
void read(const Json& json, std::optional<T>& value);
template <class T>
void read(const Json& json, std::vector<T>& values);
template <class T>
void read(const Json& json, std::map<std::string, T>& values);

namespace detail {
template <class T>
constexpr bool kMayBeAbsent = false;
template <class T>
constexpr bool kMayBeAbsent<std::optional<T>> = true;
}  // namespace detail

/// An optional field may be missing if an earlier version did not have it.
template <Record T>
void read_fields(const Json& json, T& record) {
  demand(json.is_object(), "an object");
  each_field(record, [&](const char* name, auto& value) {
    const auto found = json.find(name);
    if (found == json.end()) {
      if (detail::kMayBeAbsent<std::remove_cvref_t<decltype(value)>>) return;
      throw Mismatch{fmt::format("a field '{}'", name)};
    }
    try {
      read(*found, value);
    } catch (const Mismatch& mismatch) {
      throw Mismatch{fmt::format("{} in '{}'", mismatch.expected, name)};
    }
  });
}

template <Record T>
void read(const Json& json, T& record) {
  read_fields(json, record);
}

template <class T>
void read(const Json& json, std::optional<T>& value) {
  if (json.is_null()) {
    value.reset();
  } else {
    read(json, value.emplace());
  }
}

template <class T>
void read(const Json& json, std::vector<T>& values) {
  demand(json.is_array(), "a list");
  for (const Json& one : json) read(one, values.emplace_back());
}

template <class T>
void read(const Json& json, std::map<std::string, T>& values) {
  demand(json.is_object(), "an object");
  for (const auto& [key, value] : json.items()) read(value, values[key]);
}

// ---- the fields of events

void each_field(Like<Timing> auto& r, auto&& visit) {
  visit("wall_s", r.wall_s);
  for (const TimingPhase& phase : kTimingPhases) visit(phase.key, r.*phase.seconds);
  visit("samples", r.samples);
  visit("samples_per_s", r.samples_per_s);
  visit("first_batch_s", r.first_batch_s);
  visit("cpu_percent", r.cpu_percent);
  visit("rss_mb", r.rss_mb);
  visit("gpu_util", r.gpu_util);
  visit("gpu_mem_mb", r.gpu_mem_mb);
  visit("read_mb_s", r.read_mb_s);
}

RECORD_FIELDS(Usage, span_s, cores, cpu_stalled, io_stalled, memory_stalled, throttled,
              major_faults_s, involuntary_switches_s, loader_threads, loader_cores, memory_taken,
              gpu_power_w, gpu_power_limit_w, pcie_mb_s, gpu_throttle, outside_cores, stolen_cores,
              idle_cores, core_wait)
RECORD_FIELDS(Hello, rank, pid, host, device, startup_s, versions, allocator)
RECORD_FIELDS(WeightsSet, path, format, loaded, reinitialized, missing, ignored, frozen, notes)
RECORD_FIELDS(RunStarted, world_size, parameters, trainable_parameters, train_samples, val_samples,
              steps_per_epoch, max_epochs, global_batch, num_workers, prefetch_factor,
              num_workers_why, num_workers_taken, num_threads, num_threads_why, num_threads_taken,
              channels_last, channels_last_why, recomputes, recomputes_why, captures_steps, task,
              precision, fp32_precision, fp32_precision_why, benchmark, benchmark_why, monitor,
              data_fingerprints, no_data_digest)
RECORD_FIELDS(Progress, phase, epoch, step_in_epoch, steps_in_epoch, global_step, loss)
RECORD_FIELDS(StepLogged, epoch, global_step, loss, lr, elapsed_s, grad_norm, param_norm)
RECORD_FIELDS(Validated, epoch, global_step, metrics, improved, split)
RECORD_FIELDS(LayerNorms, epoch, global_step, norms)
RECORD_FIELDS(Distribution, global_step, tag, min, max, num, sum, sum_squares, counts)
RECORD_FIELDS(EpochEnded, epoch, global_step, lr, metrics, timing, data_digest, improved, usage)
RECORD_FIELDS(RankEpoch, rank, epoch, global_step, steps, wall_s, data_wait_s, step_s,
              allreduce_exposed_s, overlapped_s, exposed_s, overlap, payload_bytes, wire_bytes,
              bucket_bytes)
RECORD_FIELDS(TableRow, metric, epoch, row, counts)
RECORD_FIELDS(CheckpointSaved, path, epoch, global_step, metric, value, verified, exposed_s)
RECORD_FIELDS(Resumed, path, epoch, step_in_epoch, global_step, bitwise, why_not)
RECORD_FIELDS(StoppedEarly, epoch, reason)
RECORD_FIELDS(Quantized, layers, calibration_batches, float32_metrics, float32_bytes, int8_bytes,
              float32_samples_per_s, int8_samples_per_s)
RECORD_FIELDS(Evaluated, split, checkpoint, samples, outputs, targets, target_numbers, named,
              labeled, metrics, wall_s, quantized)
RECORD_FIELDS(Warning, message, sample)
RECORD_FIELDS(Failed, rank, kind, message, global_step, phase)
RECORD_FIELDS(Finished, epochs, global_step, data_digest, parameter_digest, stop_reason,
              replay_step_s, replay_steps, larger_batch_step_s, larger_batch, other_threads_step_s,
              other_threads, bf16_step_s, host_waits)
RECORD_FIELDS(Measured, device, device_name, precision, parameters, trainable_parameters,
              weight_bytes, gradient_bytes, optimizer_bytes, average_bytes, gpu_copy_bytes,
              activation_bytes, batch_bytes, kernel_bytes, best_bytes, saved_bytes, process_bytes,
              forward_flops, step_flops, batch_size, measured_batches, parameter_bytes, step_s,
              step_rounds_s, exposed_s, ranks, backward_s, num_threads, recomputes, recomputes_why,
              taken_cores)
RECORD_FIELDS(LinkMeasured, backend, device, device_name, ranks, bytes, seconds, repeats)
RECORD_FIELDS(GpuChecked, rank, check, done, failure, found, value, unit, error, pci_bus)
RECORD_FIELDS(TensorSummary, name, dtype, shape, nan_count, inf_count, min, max, mean)
RECORD_FIELDS(Replayed, rank, epoch, global_step, batch, rows, cause, recorded_loss, loss,
              recorded_first, first, bitwise, why_not, initialized, non_finite_after_step, bad_rows,
              notes, layers, tensors)

}  // namespace trainctl::events
