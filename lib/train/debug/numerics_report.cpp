#include "train/debug/numerics_report.hpp"

#include "base/files.hpp"
#include "base/strings.hpp"
#include "train/debug/tensor_stats.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace trainctl::train {
namespace {

constexpr std::size_t kShown = 40;

std::string line_of(const events::TensorSummary& tensor) {
  return fmt::format("  {:<44} {:>5} [{}]  NaN {}  Inf {}  min {:.6g}  max {:.6g}  mean {:.6g}\n",
                     printable(tensor.name), tensor.dtype, fmt::join(tensor.shape, ", "),
                     tensor.nan_count, tensor.inf_count, tensor.min, tensor.max, tensor.mean);
}

std::string lines_of(const char* title, const std::vector<events::TensorSummary>& all) {
  std::string text = fmt::format("\n{}\n", title);
  const std::size_t shown = std::min(all.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) text += line_of(all[i]);
  if (shown < all.size()) text += fmt::format("  and {} more in the JSON\n", all.size() - shown);
  return text;
}

/// What training had, of all batches and ranks of the step.
bool is_summed(const events::TensorSummary& tensor) { return tensor.name.starts_with("summed "); }

std::string place_of(const StepRecord& record) {
  return fmt::format(
      "{} at step {} of epoch {}\n\n"
      "rank {} of {}, batch {} of the epoch ({} rows); lr {:g}, precision {}, loss scale {:g}, "
      "device {}\n",
      record.cause, record.global_step, record.epoch + 1, record.rank, record.world_size,
      record.batch, record.rows, record.lr, record.precision, record.loss_scale, record.device);
}

/// What the repetition says, in one sentence.
std::string found(const Numerics& numerics, const Missing& missing) {
  const StepRecord& record = numerics.record;
  if (!missing.unrepeated.empty())
    return fmt::format("The step could not be repeated: {}\n", printable(missing.unrepeated));
  if (!record.repeated) return "It was not seen in a step: there is no batch to look at.\n";
  if (!record.first.empty())
    return fmt::format("The first value that is not finite: {}\nThe batch's loss is {}.\n",
                       record.first, record.loss);
  const auto& tensors = numerics.tensors;  // the bad ones first
  if (!tensors.empty() && is_bad(tensors.front()) && !is_summed(tensors.front()))
    return fmt::format("The first tensor that is not finite: {}\nThe batch's loss is {}.\n",
                       printable(tensors.front().name), record.loss);
  const char* where = record.world_size > 1 || record.accumulate > 1
                          ? "another batch or rank of the step, or their sum, is to blame"
                          : "the step as it was trained may not be repeatable";
  return fmt::format("Repeated alone, every value of this batch is finite (loss {}): {}.\n",
                     record.loss, where);
}

std::string caveats(const StepRecord& record, const Missing& missing) {
  std::string text;
  if (!record.weights_before)
    text += "The weights have taken the step in already, and perhaps later ones.\n";
  if (!record.random_kept)
    text += "The state of the random numbers is not that of the step: dropout may differ.\n";
  if (!missing.unwritten.empty())
    text +=
        fmt::format("There is no file to repeat the step from: {}\n", printable(missing.unwritten));
  return text;
}

constexpr const char* kAdvice =
    "\nWhat to do\n"
    "  A weight that is not finite, or huge: the step before was too large. Lower optimizer.lr, "
    "warm up, or set trainer.gradient_clip_val.\n"
    "  An input that is not finite: look at the samples above and the transforms.\n"
    "  Finite weights and inputs: the layer named above leaves the range of its number format. "
    "Try trainer.precision=32-true.\n"
    "  To try a change on this very batch:\n"
    "    trainctl run CONFIG [key=value ...] --replay-step {}\n";

}  // namespace

std::string report_text(const Numerics& numerics, const Missing& missing) {
  std::string text = place_of(numerics.record);
  text += found(numerics, missing) + caveats(numerics.record, missing);
  const std::vector<std::string> rows = bad_rows(numerics);
  if (!rows.empty()) text += "\nRows whose own loss is not finite\n";
  for (const std::string& row : rows) text += "  " + row + "\n";
  if (!numerics.samples.empty()) {
    std::vector<std::string> names;
    for (const data::RowSample& sample : numerics.samples) names.push_back(printable(sample.name));
    text += fmt::format("\nSamples: {}\n", shortened(names, 20));
  }
  text += lines_of("Tensors, those that are not finite first", numerics.tensors);
  if (!numerics.layers.empty()) text += lines_of("Outputs of the forward pass", numerics.layers);
  return text;
}

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

}  // namespace trainctl::train
