#pragma once

#include "events/records.hpp"

#include <concepts>
#include <type_traits>

// Every record's fields, once: `visit(name, member)` is called for each, for reading as for
// writing.

namespace trainctl::events {

template <class Given, class Record>
concept Like = std::same_as<std::remove_const_t<Given>, Record>;

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

void each_field(Like<Usage> auto& r, auto&& visit) {
  visit("span_s", r.span_s);
  visit("cores", r.cores);
  visit("cpu_stalled", r.cpu_stalled);
  visit("io_stalled", r.io_stalled);
  visit("memory_stalled", r.memory_stalled);
  visit("throttled", r.throttled);
  visit("major_faults_s", r.major_faults_s);
  visit("involuntary_switches_s", r.involuntary_switches_s);
  visit("loader_threads", r.loader_threads);
  visit("loader_cores", r.loader_cores);
  visit("memory_taken", r.memory_taken);
  visit("gpu_power_w", r.gpu_power_w);
  visit("gpu_power_limit_w", r.gpu_power_limit_w);
  visit("pcie_mb_s", r.pcie_mb_s);
  visit("gpu_throttle", r.gpu_throttle);
  visit("outside_cores", r.outside_cores);
  visit("stolen_cores", r.stolen_cores);
  visit("idle_cores", r.idle_cores);
  visit("core_wait", r.core_wait);
}

void each_field(Like<Hello> auto& r, auto&& visit) {
  visit("rank", r.rank);
  visit("pid", r.pid);
  visit("host", r.host);
  visit("device", r.device);
  visit("startup_s", r.startup_s);
  visit("versions", r.versions);
  visit("allocator", r.allocator);
}

void each_field(Like<WeightsSet> auto& r, auto&& visit) {
  visit("path", r.path);
  visit("format", r.format);
  visit("loaded", r.loaded);
  visit("redrawn", r.redrawn);
  visit("missing", r.missing);
  visit("ignored", r.ignored);
  visit("frozen", r.frozen);
  visit("notes", r.notes);
}

void each_field(Like<RunStarted> auto& r, auto&& visit) {
  visit("world_size", r.world_size);
  visit("parameters", r.parameters);
  visit("trainable_parameters", r.trainable_parameters);
  visit("train_samples", r.train_samples);
  visit("val_samples", r.val_samples);
  visit("steps_per_epoch", r.steps_per_epoch);
  visit("max_epochs", r.max_epochs);
  visit("global_batch", r.global_batch);
  visit("num_workers", r.num_workers);
  visit("prefetch_factor", r.prefetch_factor);
  visit("num_workers_why", r.num_workers_why);
  visit("num_threads", r.num_threads);
  visit("num_threads_why", r.num_threads_why);
  visit("num_threads_taken", r.num_threads_taken);
  visit("channels_last", r.channels_last);
  visit("channels_last_why", r.channels_last_why);
  visit("recomputes", r.recomputes);
  visit("recomputes_why", r.recomputes_why);
  visit("precision", r.precision);
  visit("monitor", r.monitor);
  visit("data_fingerprints", r.data_fingerprints);
  visit("no_data_digest", r.no_data_digest);
}

void each_field(Like<Progress> auto& r, auto&& visit) {
  visit("phase", r.phase);
  visit("epoch", r.epoch);
  visit("step_in_epoch", r.step_in_epoch);
  visit("steps_in_epoch", r.steps_in_epoch);
  visit("global_step", r.global_step);
  visit("loss", r.loss);
}

void each_field(Like<StepLogged> auto& r, auto&& visit) {
  visit("epoch", r.epoch);
  visit("global_step", r.global_step);
  visit("loss", r.loss);
  visit("lr", r.lr);
  visit("elapsed_s", r.elapsed_s);
  visit("grad_norm", r.grad_norm);
  visit("param_norm", r.param_norm);
}

void each_field(Like<EpochEnded> auto& r, auto&& visit) {
  visit("epoch", r.epoch);
  visit("global_step", r.global_step);
  visit("lr", r.lr);
  visit("metrics", r.metrics);
  visit("timing", r.timing);
  visit("data_digest", r.data_digest);
  visit("improved", r.improved);
  visit("usage", r.usage);
}

void each_field(Like<RankEpoch> auto& r, auto&& visit) {
  visit("rank", r.rank);
  visit("epoch", r.epoch);
  visit("global_step", r.global_step);
  visit("steps", r.steps);
  visit("wall_s", r.wall_s);
  visit("data_wait_s", r.data_wait_s);
  visit("step_s", r.step_s);
  visit("allreduce_exposed_s", r.allreduce_exposed_s);
  visit("overlapped_s", r.overlapped_s);
  visit("exposed_s", r.exposed_s);
  visit("overlap", r.overlap);
  visit("payload_bytes", r.payload_bytes);
  visit("wire_bytes", r.wire_bytes);
  visit("bucket_bytes", r.bucket_bytes);
}

void each_field(Like<TableRow> auto& r, auto&& visit) {
  visit("metric", r.metric);
  visit("epoch", r.epoch);
  visit("row", r.row);
  visit("counts", r.counts);
}

void each_field(Like<CheckpointSaved> auto& r, auto&& visit) {
  visit("path", r.path);
  visit("epoch", r.epoch);
  visit("global_step", r.global_step);
  visit("metric", r.metric);
  visit("value", r.value);
  visit("verified", r.verified);
  visit("exposed_s", r.exposed_s);
}

void each_field(Like<Resumed> auto& r, auto&& visit) {
  visit("path", r.path);
  visit("epoch", r.epoch);
  visit("step_in_epoch", r.step_in_epoch);
  visit("global_step", r.global_step);
  visit("bitwise", r.bitwise);
  visit("why_not", r.why_not);
}

void each_field(Like<StoppedEarly> auto& r, auto&& visit) {
  visit("epoch", r.epoch);
  visit("reason", r.reason);
}

void each_field(Like<Evaluated> auto& r, auto&& visit) {
  visit("split", r.split);
  visit("checkpoint", r.checkpoint);
  visit("samples", r.samples);
  visit("outputs", r.outputs);
  visit("targets", r.targets);
  visit("target_numbers", r.target_numbers);
  visit("named", r.named);
  visit("labelled", r.labelled);
  visit("metrics", r.metrics);
  visit("wall_s", r.wall_s);
}

void each_field(Like<Warning> auto& r, auto&& visit) {
  visit("message", r.message);
  visit("sample", r.sample);
}

void each_field(Like<Failed> auto& r, auto&& visit) {
  visit("rank", r.rank);
  visit("kind", r.kind);
  visit("message", r.message);
  visit("global_step", r.global_step);
  visit("phase", r.phase);
}

void each_field(Like<Finished> auto& r, auto&& visit) {
  visit("epochs", r.epochs);
  visit("global_step", r.global_step);
  visit("data_digest", r.data_digest);
  visit("parameter_digest", r.parameter_digest);
  visit("stop_reason", r.stop_reason);
  visit("replay_step_s", r.replay_step_s);
  visit("replay_steps", r.replay_steps);
  visit("larger_batch_step_s", r.larger_batch_step_s);
  visit("larger_batch", r.larger_batch);
  visit("other_threads_step_s", r.other_threads_step_s);
  visit("other_threads", r.other_threads);
  visit("bf16_step_s", r.bf16_step_s);
}

void each_field(Like<Measured> auto& r, auto&& visit) {
  visit("device", r.device);
  visit("device_name", r.device_name);
  visit("precision", r.precision);
  visit("parameters", r.parameters);
  visit("trainable_parameters", r.trainable_parameters);
  visit("weight_bytes", r.weight_bytes);
  visit("gradient_bytes", r.gradient_bytes);
  visit("optimizer_bytes", r.optimizer_bytes);
  visit("average_bytes", r.average_bytes);
  visit("gpu_copy_bytes", r.gpu_copy_bytes);
  visit("activation_bytes", r.activation_bytes);
  visit("batch_bytes", r.batch_bytes);
  visit("kernel_bytes", r.kernel_bytes);
  visit("best_bytes", r.best_bytes);
  visit("saved_bytes", r.saved_bytes);
  visit("process_bytes", r.process_bytes);
  visit("forward_flops", r.forward_flops);
  visit("step_flops", r.step_flops);
  visit("batch_size", r.batch_size);
  visit("measured_batches", r.measured_batches);
  visit("parameter_bytes", r.parameter_bytes);
  visit("step_s", r.step_s);
  visit("step_rounds_s", r.step_rounds_s);
  visit("exposed_s", r.exposed_s);
  visit("ranks", r.ranks);
  visit("backward_s", r.backward_s);
  visit("num_threads", r.num_threads);
  visit("recomputes", r.recomputes);
  visit("recomputes_why", r.recomputes_why);
  visit("taken_cores", r.taken_cores);
}

void each_field(Like<LinkMeasured> auto& r, auto&& visit) {
  visit("backend", r.backend);
  visit("device", r.device);
  visit("device_name", r.device_name);
  visit("ranks", r.ranks);
  visit("bytes", r.bytes);
  visit("seconds", r.seconds);
  visit("repeats", r.repeats);
}

void each_field(Like<TensorSummary> auto& r, auto&& visit) {
  visit("name", r.name);
  visit("dtype", r.dtype);
  visit("shape", r.shape);
  visit("nan_count", r.nan_count);
  visit("inf_count", r.inf_count);
  visit("min", r.min);
  visit("max", r.max);
  visit("mean", r.mean);
}

void each_field(Like<Replayed> auto& r, auto&& visit) {
  visit("rank", r.rank);
  visit("epoch", r.epoch);
  visit("global_step", r.global_step);
  visit("batch", r.batch);
  visit("rows", r.rows);
  visit("cause", r.cause);
  visit("recorded_loss", r.recorded_loss);
  visit("loss", r.loss);
  visit("recorded_first", r.recorded_first);
  visit("first", r.first);
  visit("bitwise", r.bitwise);
  visit("why_not", r.why_not);
  visit("drawn", r.drawn);
  visit("spoilt", r.spoilt);
  visit("bad_rows", r.bad_rows);
  visit("notes", r.notes);
  visit("layers", r.layers);
  visit("tensors", r.tensors);
}

}  // namespace trainctl::events
