#include "data/core/batch.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"

#include <algorithm>

namespace trainctl::data {

std::size_t Field::bytes() const {
  std::size_t count = size_of(dtype);
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

std::size_t find_field(const Layout& layout, std::string_view name) {
  const auto found = std::find_if(layout.begin(), layout.end(),
                                  [&](const Field& field) { return field.name == name; });
  return static_cast<std::size_t>(found - layout.begin());
}

bool has_masks(const Layout& layout) { return find_field(layout, spec::kPixels) < layout.size(); }

Field without_mask(const Layout& layout, std::size_t input) {
  Field field = layout[input];
  if (has_masks(layout)) --field.shape.at(2);
  return field;
}

std::uint64_t digest_of(const Batch& batch, const Layout& layout) {
  return digest_of_rows(batch, layout, 0, batch.valid);
}

std::uint64_t digest_of_rows(const Batch& batch, const Layout& layout, std::int64_t first,
                             std::int64_t end) {
  std::uint64_t sum = 0;
  for (std::int64_t row = first; row < std::min(end, batch.valid); ++row) {
    auto hash = static_cast<std::uint64_t>(batch.position + row * batch.position_step);
    for (std::size_t field = 0; field < layout.size(); ++field) {
      const std::size_t bytes = layout[field].bytes();
      hash = hash_bytes(batch.fields[field].subspan(static_cast<std::size_t>(row) * bytes, bytes),
                        hash);
    }
    sum += hash;
  }
  return sum;
}

namespace {

using spec::Inputs;
using spec::Targets;

std::optional<std::size_t> find(const Layout& layout, std::string_view name) {
  const std::size_t found = find_field(layout, name);
  return found == layout.size() ? std::nullopt : std::optional(found);
}

/// Returns {1} for a scalar.
std::vector<std::int64_t> row_of(std::vector<std::int64_t> shape) {
  if (shape.empty()) shape.push_back(1);
  return shape;
}

bool set_input(Roles& roles, const Layout& layout) {
  if (const auto image = find(layout, "image")) {
    const std::vector<std::int64_t>& shape = layout[*image].shape;
    if (layout[*image].dtype != Dtype::u8 || shape.size() != 3) return false;
    roles.kind.inputs = Inputs::images;
    roles.input = *image;
    roles.input_shape = {shape[2], shape[0], shape[1]};
    return true;
  }
  const auto rows = find(layout, "features");
  const auto tokens = find(layout, "tokens");
  if (!rows && !tokens) return false;
  roles.kind.inputs = rows ? Inputs::numbers : Inputs::tokens;
  roles.input = rows ? *rows : *tokens;
  roles.kind.vocab_size = layout[roles.input].vocab_size;
  roles.kind.padding_id = layout[roles.input].padding_id;
  roles.input_shape = row_of(layout[roles.input].shape);
  return layout[roles.input].dtype == (rows ? Dtype::f32 : Dtype::i64);
}

bool set_target(Roles& roles, const Layout& layout) {
  const auto next_tokens = find(layout, "targets");
  const bool tokens = roles.kind.inputs == Inputs::tokens && next_tokens.has_value();
  if (const auto pixels = find(layout, spec::kPixels)) {
    roles.target = *pixels;
    roles.kind.targets = Targets::pixels;
    return roles.kind.inputs == Inputs::images;
  }
  const auto target = tokens ? next_tokens : find(layout, "label");
  const bool lacks_vocabulary =
      roles.kind.inputs == Inputs::tokens && !tokens && roles.kind.vocab_size == 0;
  if (!target || lacks_vocabulary) return false;
  roles.target = *target;
  const Field& field = layout[*target];
  if (tokens) {
    roles.kind.targets = Targets::tokens;
    roles.target_shape = field.shape;
    return field.dtype == Dtype::i64 && field.shape == roles.input_shape;
  }
  roles.kind.targets = field.dtype == Dtype::f32 ? Targets::numbers : Targets::classes;
  if (field.dtype == Dtype::f32) roles.target_shape = row_of(field.shape);
  return field.dtype == Dtype::f32 ? field.shape.size() <= 1
                                   : field.dtype == Dtype::i64 && field.shape.empty();
}

}  // namespace

std::int64_t Roles::outputs(std::int64_t classes) const {
  return kind.targets == Targets::numbers ? target_shape[0] : classes;
}

std::optional<Roles> find_roles(const Layout& layout) {
  Roles roles;
  if (!set_input(roles, layout) || !set_target(roles, layout)) return std::nullopt;
  roles.label_b = find(layout, "label_b");
  roles.lambda = find(layout, "lambda");
  return roles;
}

Roles roles_of(const Layout& layout) {
  std::optional<Roles> roles = find_roles(layout);
  ENSURE(config, roles,
         "for training, samples must have an input (an image or a row of numbers) and a target (a "
         "class or numbers)");
  return *std::move(roles);
}

bool has_same_inputs(const Layout& one, const Layout& other) {
  const std::optional<Roles> a = find_roles(one);
  const std::optional<Roles> b = find_roles(other);
  return a && b ? without_mask(one, a->input) == without_mask(other, b->input) : one == other;
}

}  // namespace trainctl::data
