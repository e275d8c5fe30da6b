#include "engine/tasks/part_writer.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "spec/experiment/task.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>

namespace trainctl::engine {
namespace {

/// Data sets that lie in arrays call their samples so.
bool has_names(const data::Dataset& dataset) {
  return dataset.images() != nullptr && dataset.size() > 0 &&
         dataset.images()->name(0) != "sample 0";
}

}  // namespace

PartWriter::PartWriter(const fs::path& run_dir, int rank, const Predicted& predicted)
    : dataset_(predicted.dataset),
      roles_(data::roles_of(predicted.layout)),
      outputs_(predicted.outputs),
      target_bytes_(predicted.layout[roles_.target].bytes()) {
  make_folder(spec::part_file(run_dir, "logits", rank).parent_path());
  logits_ = open(spec::part_file(run_dir, "logits", rank));
  if (predicted.labelled) targets_ = open(spec::part_file(run_dir, "targets", rank));
  if (has_names(dataset_)) names_ = open(spec::part_file(run_dir, "names", rank));
}

PartWriter::Part PartWriter::open(const fs::path& path) {
  Part part{
      Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)), path.string(), {}};
  ENSURE(resource, part.file.valid(), "cannot write {}: {}", part.label, std::strerror(errno));
  return part;
}

void PartWriter::append(Part& part, std::string_view bytes) {
  constexpr std::size_t kChunk = 1 << 20;
  part.text += bytes;
  if (part.text.size() >= kChunk) flush(part);
}

void PartWriter::flush(Part& part) {
  write_all(part.file.get(), part.text, part.label);
  part.text.clear();
}

void PartWriter::add(const data::Batch& batch, const at::Tensor& logits) {
  ENSURE(config, logits.dim() == 2 && logits.size(0) >= batch.valid && logits.size(1) == outputs_,
         "predict writes a row of {} numbers for each sample, as dataset.train has it: "
         "the model was to give [{}, {}] for a batch and gave [{}]",
         outputs_, batch.valid, outputs_, fmt::join(logits.sizes(), ", "));
  const at::Tensor host = logits.narrow(0, 0, batch.valid).to(at::kCPU, at::kFloat).contiguous();
  append(logits_, {static_cast<const char*>(host.const_data_ptr()), host.nbytes()});
  if (targets_.file.valid()) {
    const auto* targets = reinterpret_cast<const char*>(batch.fields[roles_.target].data());
    append(targets_, {targets, static_cast<std::size_t>(batch.valid) * target_bytes_});
  }
  if (!named()) return;
  for (std::int64_t row = 0; row < batch.valid; ++row) {
    const std::int64_t position = batch.position + row * batch.position_step;
    append(names_, to_line(Json(dataset_.images()->name(position))) + "\n");
  }
}

void PartWriter::close() {
  flush(logits_);
  if (targets_.file.valid()) flush(targets_);
  if (named()) flush(names_);
}

}  // namespace trainctl::engine
