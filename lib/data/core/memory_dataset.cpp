#include "data/core/memory_dataset.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/machine/allocator.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "data/formats/mapped_file.hpp"

#include <cstring>

namespace trainctl::data {

MemoryDataset::MemoryDataset(Facts facts, Arena images, std::vector<std::uint8_t> labels)
    : facts_(std::move(facts)),
      image_(image_shape(*facts_.image())),
      images_(std::move(images)),
      labels_(std::move(labels)) {
  ASSERT(std::ssize(labels_) == facts_.samples);
  ASSERT(images_.bytes().size() == labels_.size() * image_.bytes());
}

Facts MemoryDataset::facts(std::int64_t samples, std::int64_t classes, const ImageShape& image) {
  return {samples, classes, {image_field(image), {"label", Dtype::i64, {}}}};
}

void MemoryDataset::fill(std::span<const std::int64_t> indices, Rows rows) const {
  const std::size_t bytes = rows[0].empty() ? 0 : image_.bytes();
  const std::byte* images = images_.bytes().data();
  const std::uint8_t* labels = labels_.data();
  const std::size_t count = indices.size();
  for (const std::int64_t index : indices) ASSERT(index >= 0 && index < facts_.samples);
  const auto at = [&](std::size_t i) { return static_cast<std::size_t>(indices[i]); };

  for (std::size_t i = 0; i < std::min(kRowsAhead, count); ++i)
    prefetch_row(images + at(i) * bytes, bytes);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kRowsAhead < count) {
      prefetch_row(images + at(i + kRowsAhead) * bytes, bytes);
      __builtin_prefetch(labels + at(i + kRowsAhead));
    }
    if (bytes > 0) std::memcpy(rows[0].data() + i * bytes, images + at(i) * bytes, bytes);
    const std::int64_t label = labels[at(i)];
    std::memcpy(rows[1].data() + i * sizeof label, &label, sizeof label);
  }
}

StoredImage MemoryDataset::read(std::int64_t index, std::vector<std::byte>&) const {
  ASSERT(index >= 0 && index < facts_.samples);
  return {images_.bytes().subspan(static_cast<std::size_t>(index) * image_.bytes(), image_.bytes()),
          image_};
}

void MemoryDataset::prefetch(std::int64_t index) const {
  prefetch_row(images_.bytes().data() + static_cast<std::size_t>(index) * image_.bytes(),
               image_.bytes());
}

std::string MemoryDataset::fingerprint() const {
  Hasher hasher;
  for (const std::int64_t extent : facts_.image()->shape)
    hasher.add(static_cast<std::uint64_t>(extent));
  hasher.add(static_cast<std::uint64_t>(facts_.classes));
  hasher.add(images_.bytes());
  hasher.add(std::as_bytes(std::span(labels_)));
  return hasher.hex();
}

Arena image_memory(const Facts& facts) {
  const std::uint64_t budget = available_memory() / 2;
  const std::uint64_t each = facts.image()->bytes();
  const auto samples = static_cast<std::uint64_t>(facts.samples);
  ENSURE(resource, samples <= budget / each,
         "{} samples of {} bytes each do not fit into {}, half of the available memory\nhint: free "
         "some memory or use fewer samples",
         samples, each, human_bytes(budget));
  return Arena(samples * each);
}

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

}  // namespace

template <class T>
FieldRows owned_rows(Field field, std::vector<T> values) {
  auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  const auto bytes = std::as_bytes(std::span(*owner));
  use_huge_pages(bytes);
  return {std::move(field), bytes, owner, /*mapped=*/false};
}
template FieldRows owned_rows(Field, std::vector<std::byte>);
template FieldRows owned_rows(Field, std::vector<float>);

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
