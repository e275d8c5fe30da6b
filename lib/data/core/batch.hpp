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

/// The element types of a field.
enum class Dtype { u8, i64, f32 };
constexpr std::size_t size_of(Dtype dtype) {
  return dtype == Dtype::u8 ? 1 : dtype == Dtype::i64 ? 8 : 4;
}

/// One named field of a sample, such as {"image", u8, {28, 28, 1}} (height, width, channels).
struct Field {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<std::int64_t> shape;
  std::int64_t vocab_size = 0;   // token ids are less; 0: the field has no tokens, or not known
  std::int64_t padding_id = -1;  // token id that fills the end of the sample; -1: no padding

  [[nodiscard]] std::size_t bytes() const;  // bytes of one sample
  bool operator==(const Field&) const = default;
};

/// The fields of one sample. Image, table and token data use the same ring.
using Layout = std::vector<Field>;
/// Returns the index of the field with that name, or the size of the layout otherwise.
std::size_t find_field(const Layout& layout, std::string_view name);
/// Returns whether the last channel of the images is a mask.
bool has_masks(const Layout& layout);
/// Returns the input field of a model; the channels of an image do not include a mask.
Field without_mask(const Layout& layout, std::size_t input);

/// One batch in a ring slot: each field is contiguous over `rows` samples and aligned to 64 bytes.
/// A batch is valid until the next call of Loader::next(), its memory for LoaderOptions::in_flight
/// further calls.
struct Batch {
  std::int64_t epoch = 0;
  std::int64_t index = 0;          // batch index in the epoch, from 0
  std::int64_t rows = 0;           // rows in memory, at least 1
  std::int64_t valid = 0;          // leading rows that count; the rest is padding with weight 0
  std::int64_t global_valid = 0;   // sum over all ranks, computed without communication
  std::int64_t position = 0;       // of row 0, in the epoch's order over all ranks
  std::int64_t position_step = 1;  // from one row to the next
  std::vector<std::span<const std::byte>> fields;  // in the order of the layout
  std::uint64_t digest = 0;  // digest_of() this batch; 0 for image plans, and if it is not computed
};

/// Returns a digest of the valid rows: the sum, modulo 2^64, of a hash of each row and its
/// position. Digests of all batches of an epoch, or of several ranks, therefore add up to the same
/// value however the positions are split. Requires pixels, not image plans.
std::uint64_t digest_of(const Batch& batch, const Layout& layout);
/// Returns the part of the digest that the valid rows from `first` to `end` - 1 add.
std::uint64_t digest_of_rows(const Batch& batch, const Layout& layout, std::int64_t first,
                             std::int64_t end);

/// The fields that training uses as input and target.
struct Roles {
  spec::SampleKind kind;
  std::size_t input = 0;                       // index of "image", "features" or "tokens"
  std::size_t target = 0;                      // index of "label" or "targets"
  std::optional<std::size_t> label_b, lambda;  // fields of mixed batches
  /// Shape of one sample as the model sees it: (C, H, W) for an image; at least one extent.
  std::vector<std::int64_t> input_shape;
  std::vector<std::int64_t> target_shape;  // empty for a class; otherwise at least one extent

  /// Returns the number of model outputs for a data set with `classes`: one per class or target
  /// number.
  [[nodiscard]] std::int64_t outputs(std::int64_t classes) const;
};

/// Returns nothing when samples of that layout cannot be trained on.
std::optional<Roles> find_roles(const Layout& layout);
/// Like find_roles(), but throws Error(config).
Roles roles_of(const Layout& layout);

/// Returns whether both layouts give a model the same input, regardless of labels.
bool has_same_inputs(const Layout& one, const Layout& other);

}  // namespace trainctl::data
