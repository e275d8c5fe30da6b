#include "data/pack/make_pack.hpp"

#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "data/formats/mapped_file.hpp"
#include "data/image/codec/jpeg.hpp"
#include "data/image/resize.hpp"
#include "data/pack/pack_writer.hpp"

namespace trainctl::data {
namespace {

/// Returns the shape of torchvision's Resize(size), but never enlarges the image.
ImageShape shrunk(const ImageShape& shape, std::optional<std::int64_t> size) {
  const std::int64_t shorter = std::min(shape.height, shape.width);
  if (!size || shorter <= *size) return shape;
  return {shape.height * *size / shorter, shape.width * *size / shorter, shape.channels};
}

ImageView resized(const ImageView& image, const ImageShape& to, std::vector<std::uint8_t>& out) {
  if (to == image.shape) return image;
  out.resize(to.bytes());
  const ResizePlan plan{ResizeAxis::whole(image.shape.height, to.height),
                        ResizeAxis::whole(image.shape.width, to.width)};
  resize(image, plan, out.data());
  return {out.data(), to};
}

/// Returns the shape in the file's header, or an empty shape when no decoder can read it.
ImageShape header_shape(const StoredImage& stored, PixelReader& reader) {
  try {
    return reader.shape(stored);
  } catch (const Error&) {
    return {};
  }
}

/// Converts the images of a data set to the form that a pack stores. Called from several threads.
class ImagePacker {
 public:
  /// Throws Error(config) when the images do not suit the mode.
  ImagePacker(const Dataset& dataset, const PackOptions& options)
      : dataset_(dataset), options_(options) {
    const Facts facts{.layout = dataset.layout()};
    const std::int64_t channels = image_shape(*facts.image()).channels;
    ENSURE(config, options.mode != PackMode::resize || channels == 3,
           "--mode resize writes JPEG images with 3 channels, but these images have {}\nhint: use "
           "--mode raw",
           channels);
  }

  /// Fills all of `out` except the label. Throws Error(data) that names the image.
  void make(std::int64_t index, PackedImage& out) const {
    const ImageStore& images = *dataset_.images();
    Pool<Workspace>::Lease work(pool_);
    out.name = images.name(index);
    in_context(out.name, [&] {
      const StoredImage stored = images.read(index, work->stored);
      const bool keeps = options_.mode == PackMode::keep || options_.mode == PackMode::baseline;
      keeps ? keep(stored, *work, out) : convert(stored, *work, out);
    });
  }

 private:
  struct Workspace {
    std::vector<std::byte> stored;
    PixelReader reader;
    std::vector<std::uint8_t> resized;
  };

  void keep(const StoredImage& stored, Workspace& work, PackedImage& out) const {
    const bool file = !stored.raw.fixed();
    if (options_.on_error == OnError::skip)
      (void)work.reader.read(stored);  // otherwise the file is not verified
    out.shape = header_shape(stored, work.reader);
    out.format = file ? PackFormat::file : PackFormat::raw;
    out.bytes.clear();
    if (options_.mode != PackMode::keep && file && is_jpeg(stored.bytes))
      out.bytes = baseline_jpeg(stored.bytes);
    if (out.bytes.empty()) out.bytes.assign(stored.bytes.begin(), stored.bytes.end());
  }

  void convert(const StoredImage& stored, Workspace& work, PackedImage& out) const {
    const ImageShape shape = work.reader.shape(stored);
    const ImageShape to = shrunk(shape, options_.size);
    // A second lossy compression would reduce the quality without making the image smaller.
    if (options_.mode == PackMode::resize && to == shape && !stored.raw.fixed())
      return keep(stored, work, out);
    const ImageView image = resized(work.reader.read(stored), to, work.resized);
    out.shape = to;
    if (options_.mode == PackMode::resize) {
      out.format = PackFormat::file;
      out.bytes = write_jpeg(image, options_.quality);
      return;
    }
    out.format = PackFormat::raw;
    const auto* pixels = reinterpret_cast<const std::byte*>(image.pixels);
    out.bytes.assign(pixels, pixels + to.bytes());
  }

  const Dataset& dataset_;
  PackOptions options_;
  mutable Pool<Workspace> pool_;
};

constexpr std::int64_t kAheadOfEach = 8;

/// Returns "features (8 numbers) and label (one number)", with the type if the type does not fit.
std::string described(const Layout& layout) {
  std::vector<std::string> fields;
  for (const Field& field : layout) {
    const char* type = field.dtype == Dtype::f32 ? "float" : "whole";
    std::string what = fmt::format("{}", fmt::join(field.shape, "x"));
    if (field.name != "image")
      what = field.shape.empty() ? fmt::format("one {} number", type)
                                 : fmt::format("{} {} numbers", what, type);
    fields.push_back(fmt::format("'{}' ({})", field.name, what));
  }
  return fmt::format("{}", fmt::join(fields, " and "));
}

/// Returns the initial header.
PackHeader head_of(const Dataset& dataset, const PackOptions& options) {
  const Layout& layout = dataset.layout();
  const Facts facts{.layout = layout};
  ENSURE(config,
         facts.image() != nullptr && layout.size() == 2 &&
             layout[1] == (Field{"label", Dtype::i64, {}}),
         "a pack contains images with one class each, but the samples of this data set have {}",
         described(layout));
  const std::int64_t channels = image_shape(*facts.image()).channels;
  ENSURE(config, channels <= kMostChannels,
         "a pack contains images of at most {} channels, but the images of this data set have {}",
         kMostChannels, channels);
  const std::string recipe = pack_recipe(options);
  const std::string fingerprint = dataset.fingerprint();
  PackHeader head;
  head.channels = static_cast<std::uint32_t>(channels);
  head.key = pack_key(fingerprint, recipe);
  head.source = hash_bytes(std::as_bytes(std::span(fingerprint)));
  head.samples = dataset.size();
  head.classes = dataset.classes();
  ASSERT(recipe.size() < head.recipe.size());
  std::copy(recipe.begin(), recipe.end(), head.recipe.begin());
  return head;
}

/// Reports an existing pack, if any. Refuses to overwrite any other file at that path.
std::optional<PackReport> complete_pack(const fs::path& path, std::uint64_t key, OnError on_error) {
  if (!fs::exists(path)) return std::nullopt;
  const std::string name = shown(path);
  PackHeader found;
  std::vector<SkippedSample> skipped;
  try {
    const MappedFile file(path);
    const PackView pack(file.bytes(), file.name());
    found = pack.header();
    skipped = pack.notes().skipped;
  } catch (const Error& error) {
    throw Error(
        ErrorKind::config,
        fmt::format("cannot overwrite an existing file: {}\nhint: remove the file, or choose "
                    "another name with --out",
                    error.message()));
  }
  ENSURE(config, found.key == key,
         "{} already exists, but was made from other samples or with other options ({})\nhint: "
         "remove the file, or choose another name with --out",
         name, printable(found.recipe_text()));
  ENSURE(config, skipped.empty() || on_error == OnError::skip,
         "{} is incomplete: {} sample{} could not be read when the pack was written; the first is "
         "{}\nhint: repair the samples and delete {} to pack again, or set "
         "dataset.on_error=skip to keep the pack without them",
         name, skipped.size(), plural(skipped.size()), printable(skipped.front().name), name);
  return PackReport{found.samples, found.samples, 0, std::move(skipped), fs::file_size(path)};
}

struct Slot {
  PackedImage image;
  std::optional<SkippedSample> failure;
};

void make_sample(const ImagePacker& packer, std::int64_t index, OnError on_error, Slot& slot) {
  slot.failure.reset();
  try {
    packer.make(index, slot.image);
  } catch (const Error& error) {
    if (on_error == OnError::fail || error.kind() != ErrorKind::data) throw;
    slot.failure = {slot.image.name, error.message()};
  }
}

/// Counts the samples that an interrupted run has skipped.
void count_skipped(const PackWriter& writer, OnError on_error, SkippedSamples& skipped) {
  const std::vector<SkippedSample> before = writer.skipped();
  ENSURE(data, before.empty() || on_error == OnError::skip,
         "the interrupted 'data pack' skipped a sample that could not be read, {}: {}\nhint: "
         "remove {} and {} to start again, or continue with dataset.on_error=skip",
         before.front().name, before.front().reason, shown(writer.partial_path()),
         shown(writer.journal_path()));
  for (std::size_t i = 0; i < before.size(); ++i)
    skipped.add(-1 - static_cast<std::int64_t>(i), before[i]);
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
                     const PackProgress& progress) {
  const PackHeader head = head_of(dataset, options);
  if (auto complete = complete_pack(path, head.key, options.on_error)) return *std::move(complete);
  const std::vector<std::int64_t> labels = read_labels(dataset);
  const ImagePacker packer(dataset, options);
  PackWriter writer(path, head, progress.checked);
  SkippedSamples skipped(options.max_skipped.value_or(default_max_skipped(head.samples)));
  count_skipped(writer, options.on_error, skipped);
  PackReport report{.found = writer.found(), .damaged = writer.damaged()};
  const int workers = std::max(options.workers, 1);
  const InOrder range{.first = writer.done(),
                      .end = head.samples,
                      .ahead = kAheadOfEach * workers,
                      .workers = workers};
  std::vector<Slot> slots(static_cast<std::size_t>(range.ahead));
  const auto slot = [&](std::int64_t index) -> Slot& {
    return slots[static_cast<std::size_t>(index % range.ahead)];
  };
  run_in_order(
      range, [&](std::int64_t index) { make_sample(packer, index, options.on_error, slot(index)); },
      [&](std::int64_t index) {
        Slot& made = slot(index);
        if (made.failure) skipped.add(index, *made.failure);
        made.image.label = labels[static_cast<std::size_t>(index)];
        made.failure ? writer.leave_out(*made.failure) : writer.append(made.image);
        if (progress.packed) progress.packed(index + 1, head.samples);
      });
  report.skipped = writer.skipped();
  const PackHeader done = writer.finish({dataset.class_names(), {}, options.origin});
  report.samples = done.samples;
  report.bytes = done.notes_offset() + done.notes_bytes;
  return report;
}

}  // namespace trainctl::data
