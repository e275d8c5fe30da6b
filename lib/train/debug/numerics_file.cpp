#include "train/debug/numerics_file.hpp"

#include "base/error.hpp"
#include "base/json_archive.hpp"
#include "base/strings.hpp"
#include "events/pipe.hpp"
#include "train/state/saved_state.hpp"
#include "train/state/weights.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace trainctl::train {
namespace {

constexpr const char* kSchema = "trainctl.diverged/2";
constexpr std::string_view kModel = "model/", kRandom = "rng/";

struct BatchPart {
  const char* name;
  at::Tensor device::DeviceBatch::*tensor;
};
constexpr std::array<BatchPart, 4> kBatchParts{
    {{"batch/inputs", &device::DeviceBatch::inputs},
     {"batch/targets", &device::DeviceBatch::targets},
     {"batch/targets_b", &device::DeviceBatch::targets_b},
     {"batch/lambda", &device::DeviceBatch::lambda}}};
constexpr const char* kRowLosses = "batch/row_losses";

/// Returns the tensors of the file on the host, under their names in the file.
std::vector<stage::NamedTensor> stored_tensors(const Numerics& numerics) {
  std::vector<stage::NamedTensor> all;
  for (const BatchPart& part : kBatchParts) all.push_back({part.name, numerics.batch.*part.tensor});
  all.push_back({kRowLosses, numerics.row_losses});
  for (const auto& [name, tensor] : numerics.random)
    all.push_back({std::string(kRandom) + name, tensor});
  for (const auto& [name, tensor] : numerics.weights)
    all.push_back({std::string(kModel) + name, tensor});
  std::erase_if(all, [](const stage::NamedTensor& one) { return !one.tensor.defined(); });
  return host_copies(all);
}

at::Tensor tensor_of(const container::Entry& entry) {
  return tensor_from(entry.dtype, entry.shape, entry.bytes);
}

void place(const container::Entry& entry, Numerics& into) {
  const std::string_view name = entry.name;
  for (const BatchPart& part : kBatchParts) {
    if (name == part.name) into.batch.*part.tensor = tensor_of(entry);
  }
  if (name == kRowLosses) into.row_losses = tensor_of(entry);
  if (name.starts_with(kModel))
    into.weights.push_back({std::string(name.substr(kModel.size())), tensor_of(entry)});
  if (name.starts_with(kRandom))
    into.random.push_back({std::string(name.substr(kRandom.size())), tensor_of(entry)});
}

void read_meta(const Json& meta, Numerics& into) {
  ENSURE(checkpoint, meta.is_object() && meta.value("schema", std::string()) == kSchema,
         "it is not the saved step of a diverged run ({})", kSchema);
  recall(into.record, meta.at("step"));
  for (const Json& one : meta.at("samples"))
    into.samples.push_back({one.at(0).get<std::int64_t>(), one.at(1).get<std::string>()});
}

}  // namespace

void StepRecord::serialize(StateArchive& archive) {
  archive.value("rank", &rank);
  archive.value("world_size", &world_size);
  archive.value("cause", &cause);
  std::int64_t number = epoch + 1;  // files count from 1
  archive.value("epoch", &number);
  epoch = number - 1;
  archive.value("global_step", &global_step);
  archive.value("batch", &batch);
  archive.value("rows", &rows);
  archive.value("accumulate", &accumulate);
  archive.value("lr", &lr);
  archive.value("loss_scale", &loss_scale);
  archive.value("precision", &precision);
  archive.value("channels_last", &channels_last);
  archive.value("device", &device);
  archive.value("cpu", &cpu);
  archive.value("torch", &torch);
  archive.value("version", &version);
  archive.value("num_threads", &num_threads);
  archive.value("inputs", &inputs);
  archive.value("targets", &targets);
  archive.value("input_shape", &input_shape);
  archive.value("outputs", &outputs);
  archive.value("vocab_size", &vocab_size);
  archive.value("padding_id", &padding_id);
  archive.value("weights_before", &weights_before);
  archive.value("buffers_before", &buffers_before);
  archive.value("random_kept", &random_kept);
  archive.value("repeated", &repeated);
  archive.value("loss", &loss);
  archive.value("first", &first);
  archive.group("digests", [&] {
    archive.value("loss", &digests.loss);
    archive.value("outputs", &digests.outputs);
    archive.value("gradients", &digests.gradients);
  });
  archive.value("config", &config);
  archive.value("config_hash", &config_hash);
}

std::vector<std::string> bad_rows(const Numerics& numerics) {
  constexpr std::size_t kMost = 10;
  std::vector<std::string> lines;
  if (!numerics.row_losses.defined()) return lines;
  const auto rows = static_cast<std::size_t>(numerics.row_losses.numel());
  const std::span<const float> losses(numerics.row_losses.const_data_ptr<float>(), rows);
  for (std::size_t row = 0; row < rows && lines.size() < kMost; ++row) {
    if (std::isfinite(losses[row])) continue;
    const std::string name = row < numerics.samples.size()
                                 ? fmt::format(", {}", printable(numerics.samples[row].name))
                                 : "";
    lines.push_back(fmt::format("row {}{}: loss {}", row, name, losses[row]));
  }
  return lines;
}

stage::BatchSamples samples_in(const Numerics& numerics) {
  stage::BatchSamples samples{numerics.record.epoch, {}};
  for (const data::RowSample& sample : numerics.samples) samples.indices.push_back(sample.index);
  return samples;
}

Json meta_of(const Numerics& numerics) {
  StepRecord record = numerics.record;
  Json samples = Json::array();
  for (const auto& [index, name] : numerics.samples)
    samples.push_back(Json::array({index, printable(name)}));
  return {{"schema", kSchema},
          {"step", remember(record)},
          {"samples", std::move(samples)},
          {"tensors", events::to_json(numerics.tensors)},
          {"layers", events::to_json(numerics.layers)}};
}

std::uint64_t write_numerics(const std::filesystem::path& path, const Numerics& numerics,
                             std::uint64_t most) {
  const std::vector<stage::NamedTensor> hosts = stored_tensors(numerics);
  const std::vector<container::Entry> entries = container_entries(hosts);
  const Json meta = meta_of(numerics);
  const std::uint64_t bytes = container::file_bytes(entries, meta);
  if (bytes > most) return 0;
  container::write(path, entries, meta);
  return bytes;
}

Numerics read_numerics(const std::filesystem::path& path) {
  const container::File file(path);
  Numerics numerics;
  in_context("cannot read " + printable(path.string()), [&] {
    try {
      read_meta(file.meta(), numerics);
    } catch (const Json::exception& error) {
      throw Error(ErrorKind::checkpoint,
                  fmt::format("its metadata is damaged: {}", printable(error.what())));
    }
    for (const container::Entry& entry : file.entries()) place(entry, numerics);
    numerics.batch.valid = numerics.batch.global_valid = numerics.record.rows;
  });
  return numerics;
}

}  // namespace trainctl::train
