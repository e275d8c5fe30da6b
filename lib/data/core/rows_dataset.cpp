#include "data/core/rows_dataset.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/machine/huge_pages.hpp"
#include "data/formats/mapped_file.hpp"
#include "data/loader/prefetch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trainctl::data {
namespace {

void gather(std::span<const std::int64_t> indices, const std::byte* from, std::size_t bytes,
            std::byte* out) {
  const auto row = [&](std::size_t i) {
    return from + static_cast<std::size_t>(indices[i]) * bytes;
  };
  for (std::size_t i = 0; i < std::min(kRowsAhead, indices.size()); ++i)
    prefetch_row(row(i), bytes);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i + kRowsAhead < indices.size()) prefetch_row(row(i + kRowsAhead), bytes);
    std::memcpy(out + i * bytes, row(i), bytes);
  }
}

template <class T>
FieldRows owned(Field field, std::vector<T> values) {
  auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  const auto bytes = std::as_bytes(std::span(*owner));
  use_huge_pages(bytes);
  return {std::move(field), bytes, owner, /*mapped=*/false};
}

}  // namespace

FieldRows owned_rows(Field field, std::vector<std::byte> bytes) {
  return owned(std::move(field), std::move(bytes));
}

FieldRows owned_rows(Field field, std::vector<float> values) {
  return owned(std::move(field), std::move(values));
}

RowsDataset::RowsDataset(std::vector<FieldRows> fields, std::int64_t classes,
                         std::vector<std::string> class_names)
    : fields_(std::move(fields)), classes_(classes), class_names_(std::move(class_names)) {
  ASSERT(!fields_.empty());
  samples_ = std::ssize(fields_[0].bytes) / static_cast<std::int64_t>(fields_[0].field.bytes());
  ASSERT(samples_ > 0);
  for (const FieldRows& rows : fields_) {
    ASSERT(rows.bytes.size() == static_cast<std::size_t>(samples_) * rows.field.bytes());
    layout_.push_back(rows.field);
  }
}

void RowsDataset::fill(std::span<const std::int64_t> indices, Rows rows) const {
  for (const std::int64_t index : indices) ASSERT(index >= 0 && index < samples_);
  for (std::size_t field = 0; field < fields_.size(); ++field) {
    if (rows[field].empty()) continue;
    gather(indices, fields_[field].bytes.data(), fields_[field].field.bytes(), rows[field].data());
  }
}

StoredImage RowsDataset::read(std::int64_t index, std::vector<std::byte>&) const {
  ASSERT(index >= 0 && index < samples_);
  const ImageShape shape = image_shape(layout_[0]);
  return {fields_[0].bytes.subspan(static_cast<std::size_t>(index) * shape.bytes(), shape.bytes()),
          shape};
}

std::string RowsDataset::name(std::int64_t index) const { return fmt::format("sample {}", index); }

Footprint RowsDataset::footprint() const {
  Footprint found;
  for (const FieldRows& rows : fields_)
    (rows.mapped ? found.mapped : found.memory) += rows.bytes.size();
  return found;
}

std::string RowsDataset::fingerprint() const {
  Hasher hasher;
  for (const FieldRows& rows : fields_) {
    hasher.add(rows.field.name);
    hasher.add(std::as_bytes(std::span(rows.field.shape)));
    hasher.add(content_digest(rows.bytes));
  }
  return hasher.hex();
}

}  // namespace trainctl::data
