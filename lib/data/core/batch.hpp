#pragma once

#include "spec/sample.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::data {

enum class Dtype { u8, i64, f32 };
constexpr std::size_t size_of(Dtype dtype) {
  return dtype == Dtype::u8 ? 1 : dtype == Dtype::i64 ? 8 : 4;
}

/// One named part of a sample: {"image", u8, {28, 28, 1}} (height, width, channels).
struct Field {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::size_t bytes() const;  // of one sample
  bool operator==(const Field&) const = default;
};

/// What one sample is made of; image, table and token data use the same ring.
using Layout = std::vector<Field>;
/// The index of the field of that name; the size of the layout where there is none.
std::size_t find_field(const Layout& layout, std::string_view name);

/// One batch as it lies in a ring slot: each field contiguous over `rows` samples, aligned to 64
/// bytes. Valid until the next call of Loader::next().
struct Batch {
  std::int64_t epoch = 0;
  std::int64_t index = 0;          // batch of the epoch, from 0
  std::int64_t rows = 0;           // rows in memory, at least 1
  std::int64_t valid = 0;          // the first `valid` rows count; the rest is padding of weight 0
  std::int64_t global_valid = 0;   // summed over the ranks: known to every rank by arithmetic
  std::int64_t position = 0;       // of row 0 in the epoch's order over all ranks
  std::int64_t position_step = 1;  // from one row to the next
  std::vector<std::span<const std::byte>> fields;  // in the order of the layout
};

/// Digest of a batch's valid rows: the sum, modulo 2^64, of a hash of each row and its position. So
/// the digests of the batches of an epoch, or of several ranks, add up to the same value however
/// the positions are split. Of pixels, not of plans.
std::uint64_t digest(const Batch& batch, const Layout& layout);

/// Which fields of a sample training uses, and what for.
struct Roles {
  spec::SampleKind kind;
  std::size_t input = 0;                       // "image", "features" or "tokens"
  std::size_t target = 0;                      // "label" or "targets"
  std::optional<std::size_t> label_b, lambda;  // of mixed batches
  /// As a model sees one sample: (C, H, W) of an image; at least one extent.
  std::vector<std::int64_t> input_shape;
  std::vector<std::int64_t> target_shape;  // none of a class; at least one extent of anything else

  /// Outputs of a model for a data set with `classes`: one for each class or target number.
  [[nodiscard]] std::int64_t outputs(std::int64_t classes) const;
};

/// Nothing where samples of that layout cannot be trained on.
std::optional<Roles> find_roles(const Layout& layout);
/// The same. Throws Error(config) in place of nothing.
Roles roles_of(const Layout& layout);

/// Whether a model gets the same input from both, whatever their labels are.
bool has_same_inputs(const Layout& one, const Layout& other);

}  // namespace trainctl::data
