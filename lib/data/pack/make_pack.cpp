#include "data/pack/make_pack.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "data/mapped_file.hpp"
#include "data/pack/image_packer.hpp"
#include "data/pack/in_order.hpp"
#include "data/pack/writer.hpp"
#include "data/sampling.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace trainctl::data {
namespace {

constexpr std::int64_t kAheadOfEach = 8;

/// What the header says before anything is written.
PackHeader head_of(const Dataset& dataset, const PackOptions& options) {
  const Layout& layout = dataset.layout();
  const Facts facts{.layout = layout};
  ENSURE(config,
         facts.image() != nullptr && layout.size() == 2 &&
             layout[1] == (Field{"label", Dtype::i64, {}}),
         "a pack holds images with one label each, and the samples of this data set are made of {} "
         "field(s)",
         layout.size());
  const std::string recipe = pack_recipe(options);
  const std::string fingerprint = dataset.fingerprint();
  PackHeader head;
  head.channels = static_cast<std::uint32_t>(image_shape(*facts.image()).channels);
  head.key = pack_key(fingerprint, recipe);
  head.source = hash_bytes(std::as_bytes(std::span(fingerprint)));
  head.samples = dataset.size();
  head.classes = dataset.classes();
  ASSERT(recipe.size() < head.recipe.size());
  std::copy(recipe.begin(), recipe.end(), head.recipe.begin());
  return head;
}

/// The pack that is there already; nothing where none is. Another file in its place is not
/// overwritten.
std::optional<PackHeader> complete_pack(const fs::path& path, std::uint64_t key) {
  if (!fs::exists(path)) return std::nullopt;
  const std::string name = printable(path.string());
  PackHeader found;
  try {
    const MappedFile file(path);
    found = PackView(file.bytes(), file.name()).header();
  } catch (const Error& error) {
    throw Error(ErrorKind::config,
                fmt::format("{} is in the way and cannot be used: {}", name, error.what()));
  }
  ENSURE(config, found.key == key,
         "{} was made ({}) from other samples or with other options: the data has changed, or "
         "another pack is meant; "
         "remove the file or choose another name with --out",
         name, printable(found.recipe_text()));
  return found;
}

}  // namespace

std::string pack_recipe(const PackOptions& options) {
  std::string recipe = enum_names(options.mode).at(static_cast<std::size_t>(options.mode));
  const bool resizes = options.mode == PackMode::resize || options.mode == PackMode::raw;
  if (resizes && options.size) recipe += fmt::format(", shorter side at most {}", *options.size);
  if (options.mode == PackMode::resize) recipe += fmt::format(", JPEG quality {}", options.quality);
  return recipe;
}

PackReport make_pack(const Dataset& dataset, const fs::path& path, const PackOptions& options,
                     const Progress& progress) {
  const PackHeader head = head_of(dataset, options);
  if (const auto complete = complete_pack(path, head.key)) {
    return {head.samples, head.samples, fs::file_size(path)};
  }
  const std::vector<std::int64_t> labels = read_labels(dataset);
  PackWriter writer(path, head);
  const std::int64_t found = writer.done();
  const int workers = std::max(options.workers, 1);
  const InOrder range{
      .first = found, .end = head.samples, .ahead = kAheadOfEach * workers, .workers = workers};
  const ImagePacker packer(dataset, options);
  std::vector<PackedImage> slots(static_cast<std::size_t>(range.ahead));
  const auto slot = [&](std::int64_t index) -> PackedImage& {
    return slots[static_cast<std::size_t>(index % range.ahead)];
  };
  run_in_order(
      range, [&](std::int64_t index) { packer.make(index, slot(index)); },
      [&](std::int64_t index) {
        slot(index).label = labels[static_cast<std::size_t>(index)];
        writer.append(slot(index));
        if (progress) progress(index + 1, head.samples);
      });
  const PackHeader done = writer.finish();
  return {head.samples, found,
          done.index_offset() + done.names_bytes + entries_bytes(done.samples)};
}

}  // namespace trainctl::data
