#pragma once

#include "base/files.hpp"
#include "data/core/roles.hpp"
#include "data/loader/loader.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace trainctl::engine {

/// What is predicted.
struct Predicted {
  const data::Dataset& dataset;
  const data::Layout& layout;  // of its batches
  std::int64_t outputs = 0;    // of the model, for each sample
  bool labelled = true;        // its targets are written, too
};

/// Writes what one rank predicts into its part files of the run folder (spec::part_file): the rows
/// of its batches that count, in their order.
class PartWriter {
 public:
  PartWriter(const fs::path& run_dir, int rank, const Predicted& predicted);

  /// Whether the samples have names of their own, not their numbers alone.
  [[nodiscard]] bool named() const { return names_.file.valid(); }
  /// `logits`: [rows, outputs], of the batch. Throws Error(config) for a model of another shape,
  /// Error(resource) where the disk is full.
  void add(const data::Batch& batch, const at::Tensor& logits);
  /// Writes what is left; once, at the end.
  void close();

 private:
  struct Part {
    Fd file;
    std::string label;
    std::string text;  // not written yet
  };
  static Part open(const fs::path& path);
  static void append(Part& part, std::string_view bytes);
  static void flush(Part& part);

  const data::Dataset& dataset_;
  data::Roles roles_;
  std::int64_t outputs_;
  std::size_t target_bytes_;
  Part logits_;
  Part targets_;  // not open: there are none
  Part names_;    // the same
};

}  // namespace trainctl::engine
