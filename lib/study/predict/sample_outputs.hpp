#pragma once

#include "base/files.hpp"
#include "config/schema/schema.hpp"
#include "events/records.hpp"
#include "spec/sample.hpp"

#include <cstddef>
#include <cstdint>
#include <fstream>
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

}  // namespace trainctl::study
