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

/// One sample as the ranks have told it.
struct SampleRow {
  std::int64_t index = 0;  // in the order of the split
  std::string name;        // empty: it has none
  std::int64_t label = 0;  // where its target is a class, and told
  std::vector<float> targets;
  std::vector<float> logits;
};

/// What makes probabilities of logits: the function that belongs to the loss.
enum class Scale { none, softmax, sigmoid };

/// What the outputs of a model say.
struct Meaning {
  Scale scale = Scale::none;
  bool one_class = false;  // of each sample; else its outputs stand for themselves
};

Meaning meaning_of(const config::Stage& loss, spec::Targets targets);

/// In double precision, rounded to float once. The scale is not `none`.
std::vector<float> probabilities(std::span<const float> logits, Scale scale);

/// The first of the largest, as torch.argmax has it: NaN is larger than any number.
std::size_t largest(std::span<const float> logits);

/// What the ranks have written of their shares, as one sequence in the order of the split. Rank r
/// of R has the positions p with p mod R = r, ascending: so row p is the next one of rank p mod R.
class PredictionParts {
 public:
  /// Throws Error(resource) where the parts do not hold exactly the samples that were told.
  PredictionParts(const fs::path& run_dir, int world_size, const events::Evaluated& told);

  /// Fills the row with the next sample; false behind the last one.
  bool next(SampleRow& row);

 private:
  struct Part {
    std::ifstream logits, targets, names;
  };
  void read_target(std::ifstream& file, SampleRow& row) const;

  const events::Evaluated& told_;
  std::vector<Part> parts_;
  std::int64_t next_ = 0;
};

/// Rows of rank r of R, of so many samples.
std::int64_t rows_of_rank(std::int64_t samples, int rank, int world_size);

}  // namespace trainctl::study
