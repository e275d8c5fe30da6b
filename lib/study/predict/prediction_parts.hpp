#pragma once

#include "base/files.hpp"
#include "events/records.hpp"
#include "study/predict/prediction_rows.hpp"

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace trainctl::study {

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
