#pragma once

#include "data/core/batch.hpp"
#include "spec/sample.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::data {

/// Which fields of a sample training uses, and what for.
struct Roles {
  spec::SampleKind kind;
  std::size_t input = 0;                       // "image", "features" or "tokens"
  std::size_t target = 0;                      // "label" or "targets"
  std::optional<std::size_t> label_b, lambda;  // of mixed batches
  /// As a model sees one sample: (C, H, W) of an image; at least one extent.
  std::vector<std::int64_t> input_shape;
  std::vector<std::int64_t> target_shape;  // none of a class; at least one extent of anything else

  /// Outputs that a model needs for the targets of a data set with `classes`: one a class or
  /// target number.
  [[nodiscard]] std::int64_t outputs(std::int64_t classes) const;
};

/// Nothing where samples of that layout cannot be trained on.
std::optional<Roles> find_roles(const Layout& layout);
/// The same. Throws Error(config) in place of nothing.
Roles roles_of(const Layout& layout);

/// Whether a model of the one is given the same by the other, whatever their labels are.
bool has_same_inputs(const Layout& one, const Layout& other);

}  // namespace trainctl::data
