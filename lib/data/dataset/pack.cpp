#include "data/dataset/pack.hpp"

#include "base/hash.hpp"
#include "base/url.hpp"
#include "spec/options/dataset.hpp"

namespace trainctl::data {
namespace {

using spec::dataset::Pack;

/// Without the option 'source', compares with the source that the pack records.
void check_origin(const PackHeader& header, const PackNotes& notes, const Pack& options) {
  if (options.source || options.on_stale == spec::dataset::OnStale::ignore) return;
  check_pack_origin(header, notes.origin, catalog_in_use(), shown(options.path));
}

Layout layout_of(const PackHeader& header) {
  return {image_field(header.shape()), {"label", Dtype::i64, {}}};
}

/// Downloads the header, index and notes of a remote pack.
PackView view_of(const MappedFile& file) {
  file.need(0, kPackPage);
  const std::uint64_t index = PackView::head(file.bytes(), file.name()).index_offset();
  file.need(index, file.bytes().size() - index);
  return {file.bytes(), file.name()};
}

}  // namespace

void register_dataset_pack(Catalog& catalog) {
  catalog.datasets["pack"] = [](const config::Stage& stage) {
    const auto& options = stage.as<Pack>();
    auto pack = std::make_shared<const PackDataset>(options.path);
    check_origin(pack->header(), pack->notes(), options);
    if (options.source) {
      const auto source = catalog_in_use().datasets.at(options.source.type)(options.source);
      check_pack_source(pack->header(), source->fingerprint(), shown(options.path));
    }
    return pack;
  };
  catalog.facts["pack"] = [](const config::Stage& stage) {
    const auto& options = stage.as<Pack>();
    const PackHead pack(options.path);
    check_origin(pack.header, pack.notes, options);
    return pack.facts();
  };
}

PackHead::PackHead(const std::filesystem::path& path) {
  const MappedFile file(path, Fetch::as_needed);
  file.need(0, kPackPage);
  header = PackView::head(file.bytes(), file.name());
  file.need(header.notes_offset(), header.notes_bytes);
  notes = PackView::notes(file.bytes(), header, file.name());
}

Facts PackHead::facts() const {
  return {header.samples, header.classes, layout_of(header), notes.class_names};
}

PackDataset::PackDataset(const std::filesystem::path& path)
    : path_(path),
      remote_(is_remote(path)),
      file_(path, Fetch::as_needed),
      pack_(view_of(file_)),
      layout_(layout_of(pack_.header())),
      checked_(static_cast<std::size_t>(pack_.header().samples)) {}

StoredImage PackDataset::checked_image(std::int64_t index, const PackEntry& entry,
                                       std::span<const std::byte> bytes) const {
  std::atomic<bool>& checked = checked_[static_cast<std::size_t>(index)];
  if (!checked.load(std::memory_order_relaxed)) {
    file_.need(entry.offset, entry.bytes);
    ENSURE(data, hash_bytes(bytes) == entry.hash,
           "{} is damaged: the checksum of this image ({} bytes at byte {}) is wrong\nhint: write "
           "the pack again with 'trainctl data pack'",
           file_.name(), entry.bytes, entry.offset);
    checked.store(true, std::memory_order_relaxed);
  }
  StoredImage image{bytes, {}};
  if (entry.format == PackFormat::raw) image.raw = {entry.height, entry.width, entry.channels};
  return image;
}

StoredImage PackDataset::read(std::int64_t index, std::vector<std::byte>&) const {
  ASSERT(index >= 0 && index < size());
  const PackEntry entry = pack_.entry(index);
  return checked_image(index, entry, pack_.bytes(entry));
}

StoredImage PackDataset::image(std::int64_t index, std::span<const std::byte> bytes) const {
  return checked_image(index, pack_.entry(index), bytes);
}

FileRange PackDataset::range(std::int64_t index) const {
  const PackEntry entry = pack_.entry(index);
  return {0, entry.offset, entry.bytes};
}

FileReader PackDataset::open(std::size_t) const {
  FileReader file(path_);
  // If the file has shrunk, the read reports the byte at which it ends.
  ENSURE(data, file.stamp() == file_.stamp() || file.size() < file_.stamp().size,
         "{} was changed during the run\nhint: start the run again", file_.name());
  return file;
}

void PackDataset::copy_image(std::int64_t index, std::span<std::byte> out) const {
  std::vector<std::byte> unused;
  try {
    const StoredImage image = read(index, unused);
    ASSERT(image.bytes.size() == out.size());
    std::memcpy(out.data(), image.bytes.data(), out.size());
  } catch (Error& error) {
    error.add_frame(name(index));
    throw;
  }
}

void PackDataset::fill(std::span<const std::int64_t> indices, Rows rows) const {
  const std::size_t bytes = rows[0].empty() ? 0 : layout_[0].bytes();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (bytes > 0) copy_image(indices[i], rows[0].subspan(i * bytes, bytes));
    const std::int64_t label = pack_.entry(indices[i]).label;
    if (!rows[1].empty()) std::memcpy(rows[1].data() + i * sizeof label, &label, sizeof label);
  }
}

std::uint64_t PackDataset::fetch(std::int64_t index) const {
  const PackEntry entry = pack_.entry(index);
  file_.need(entry.offset, entry.bytes);
  return entry.bytes;
}

std::string PackDataset::name(std::int64_t index) const { return printable(pack_.name(index)); }

// The index holds the checksum, label and name of every image, so its hash identifies the content.
std::string PackDataset::fingerprint() const {
  Hasher hasher;
  hasher.add(pack_.header().index_hash);
  for (const std::string& name : class_names()) hasher.add(name), hasher.add(name.size());
  return hasher.hex();
}

}  // namespace trainctl::data
