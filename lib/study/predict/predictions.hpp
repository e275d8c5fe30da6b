#pragma once

#include "base/files.hpp"
#include "config/schema/schema.hpp"
#include "events/records.hpp"
#include "spec/sample.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::study {

/// One sample as the ranks wrote it.
struct SampleRow {
  std::int64_t index = 0;  // position in the split
  std::string name;        // empty: no name
  std::int64_t label = 0;  // if the target is a class and was recorded
  std::vector<float> targets;
  std::vector<float> logits;
};

/// The function that converts logits to probabilities; it depends on the loss.
enum class Activation { none, softmax, sigmoid };

/// How the outputs of a model are interpreted.
struct OutputMeaning {
  Activation activation = Activation::none;
  bool one_class = false;  // each sample has one class; else each output is a value
};

/// Returns the interpretation for a loss and the targets of the data set.
OutputMeaning meaning_of(const config::Stage& loss, spec::Targets targets);

/// Computes in double precision and rounds once to float. `activation` must not be `none`.
std::vector<float> probabilities(std::span<const float> logits, Activation activation);

/// Returns the index of the first maximum as torch.argmax does: NaN is larger than any number.
std::size_t largest(std::span<const float> logits);

/// Reads the ranks' files as one sequence in the order of the split. Rank r of R has the positions
/// p with p mod R = r in ascending order, so row p is the next row of rank p mod R.
class PredictionParts {
 public:
  /// Throws Error(resource) when the files do not contain exactly the reported number of samples.
  PredictionParts(const fs::path& run_dir, int world_size, const events::Evaluated& evaluated);

  /// Reads the next sample into `row`; returns false after the last one.
  bool next(SampleRow& row);

 private:
  struct Part {
    std::ifstream logits, targets, names;
  };
  void read_target(std::ifstream& file, SampleRow& row) const;

  const events::Evaluated& evaluated_;
  std::vector<Part> parts_;
  std::int64_t next_ = 0;
};

/// Returns the number of rows of rank r of R for that many samples.
std::int64_t rows_of_rank(std::int64_t samples, int rank, int world_size);

enum class Output { logits, probabilities, classes, prediction };
constexpr std::array<const char*, 4> enum_names(Output) {
  return {"logits", "probabilities", "class", "prediction"};
}

/// `png`: a folder with one image per sample, the class of each pixel.
enum class Format { csv, npy, jsonl, png };
constexpr std::array<const char*, 4> enum_names(Format) { return {"csv", "npy", "jsonl", "png"}; }

/// The options of the command line for the file of predictions.
struct PredictionRequest {
  fs::path file;
  std::vector<std::string> outputs;  // empty: the outputs that are defined for the loss
  std::string format;                // empty: from the file's extension
  bool replaces = false;             // overwrite an existing file
};

/// The checked contents of a file of predictions.
struct PredictionPlan {
  fs::path file;
  Format format = Format::csv;
  std::vector<Output> outputs;
  OutputMeaning meaning;
  bool replaces = false;                      // overwrite a file that exists or appears later
  std::vector<std::string> class_names = {};  // unique names of the outputs; empty: numbers

  [[nodiscard]] bool has(Output output) const;
  [[nodiscard]] bool is_masks() const { return format == Format::png; }
};

/// Decides the contents of the file. Throws Error(config) for an unknown format or output, for an
/// output that is not defined for the loss, when the file already exists (with `replaces`: when it
/// is not a regular file), and when its folder does not exist.
PredictionPlan plan_predictions(const PredictionRequest& request, const OutputMeaning& meaning);

/// Decides the folder of the masks of a model of pixels. Throws Error(config) for another format or
/// output, when the path already exists, and when its folder does not exist.
PredictionPlan plan_masks(const PredictionRequest& request);

/// Moves the masks of the ranks to the plan's folder. Throws Error(resource) if it exists now.
void move_masks(const fs::path& run_dir, const PredictionPlan& plan);

/// Returns the class names for `outputs` outputs of the model; the number is appended if two
/// classes have the same name. Empty if the number of names is not `outputs`.
std::vector<std::string> distinct_names(const std::vector<std::string>& names,
                                        std::int64_t outputs);

/// Returns the size of the file in bytes if the format determines it in advance; else 0.
std::uint64_t known_bytes(const PredictionPlan& plan, std::int64_t samples, std::int64_t outputs);

/// Returns the size of the ranks' temporary files in bytes: logits, and targets with `target_bytes`
/// per sample. Names are not included.
std::uint64_t part_bytes(std::int64_t samples, std::int64_t outputs, std::uint64_t target_bytes);

/// Throws Error(resource) when the disk of the file has less free space.
void check_room(const fs::path& file, std::uint64_t bytes);

/// The files that the ranks have written, and their folder.
struct RankParts {
  fs::path run_dir;
  int world_size = 1;
  const events::Evaluated& evaluated;
};

/// Called from time to time; an exception from it stops the writing.
using StopCheck = std::function<void()>;

/// Writes the predictions file atomically from the files of the ranks. Throws Error(resource) when
/// it cannot be written, Error(config) when a file exists by now that the plan does not overwrite.
void write_predictions(
    const RankParts& left, const PredictionPlan& plan, const StopCheck& check_stop = [] {});

/// Returns the text before the first row: the header of CSV or NPY, nothing for JSON lines.
std::string head_of(const PredictionPlan& plan, const events::Evaluated& evaluated);

/// Appends a sample in the plan's format. Numbers read back as the same float; non-finite numbers
/// are nan, inf and -inf, in JSON as strings.
void append_row(std::string& text, const PredictionPlan& plan, const events::Evaluated& evaluated,
                const SampleRow& row);

/// Returns a header of NumPy's format version 1.0 for float32 [samples, outputs], or int64
/// [samples] of classes. Its length is a multiple of 64.
std::string npy_header(const PredictionPlan& plan, std::int64_t samples, std::int64_t outputs);

}  // namespace trainctl::study
