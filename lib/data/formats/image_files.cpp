#include "data/formats/image_files.hpp"

#include "base/hash.hpp"
#include "base/url.hpp"
#include "data/remote/cached_object.hpp"

#include <cstring>
#include <numeric>

namespace trainctl::data {
namespace {

constexpr std::int64_t kTileRows = 8;  // decoding an image takes about a millisecond
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;  // limit of one image file

std::uint64_t bytes_of(const ImageFiles& files) {
  if (!files.file_of.empty())
    return std::accumulate(files.sizes.begin(), files.sizes.end(), std::uint64_t{0});
  const auto add = [](std::uint64_t sum, const FileStamp& stamp) { return sum + stamp.size; };
  return std::accumulate(files.stamps.begin(), files.stamps.end(), std::uint64_t{0}, add);
}

class ImageFileDataset final : public Dataset,
                               public ImageStore,
                               public ImageRanges,
                               public Fetchable {
 public:
  ImageFileDataset(DataRoot root, ImageFiles files, std::function<void()> forget)
      : root_(std::move(root)),
        files_(std::move(files)),
        facts_(files_.facts()),
        forget_(std::move(forget)),
        remote_(is_remote(root_.folder()) || names_remote(files_)),
        bytes_(bytes_of(files_)) {}

  [[nodiscard]] std::int64_t size() const override { return facts_.samples; }
  [[nodiscard]] const Layout& layout() const override { return facts_.layout; }
  [[nodiscard]] std::int64_t classes() const override { return facts_.classes; }
  [[nodiscard]] std::vector<std::string> class_names() const override { return facts_.class_names; }
  [[nodiscard]] std::int64_t tile_rows() const override { return kTileRows; }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] Footprint footprint() const override { return {files_.bytes(), 0}; }

  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    ASSERT(rows[0].empty());  // files differ in size, so a transform makes the pixels
    const std::size_t bytes = files_.labels.field.bytes();
    const std::byte* labels = files_.labels.rows.data();
    for (std::size_t i = 0; i < indices.size(); ++i)
      std::memcpy(rows[1].data() + i * bytes, labels + indices[i] * bytes, bytes);
  }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    const FileReader reader = open(file_of(index));
    const FileRange where = range_in(index, reader.size());
    ENSURE(data, where.bytes <= kMostBytes,
           "the image file has {} bytes, more than the limit of {} bytes", where.bytes, kMostBytes);
    ENSURE(data, where.bytes > 0, "the image file is empty");
    if (scratch.size() < where.bytes) scratch.resize(where.bytes);
    const auto bytes = std::span(scratch).first(where.bytes);
    reader.read(where.offset, bytes);
    return {bytes, {}};
  }

  [[nodiscard]] const ImageRanges* ranges() const override { return remote_ ? nullptr : this; }
  [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }

  [[nodiscard]] FileRange range(std::int64_t index) const override {
    return range_in(index, files_.stamps[file_of(index)].size);
  }

  [[nodiscard]] FileReader open(std::size_t file) const override {
    FileReader reader = root_.open(std::string(files_.files[file]));
    const FileStamp& listed = files_.stamps[file];
    if (listed != FileStamp{} && reader.stamp() != listed) fail_as_changed(reader, file);
    return reader;
  }

  [[nodiscard]] StoredImage image(std::int64_t, std::span<const std::byte> bytes) const override {
    return {bytes, {}};
  }

  [[nodiscard]] const Fetchable* fetchable() const override { return remote_ ? this : nullptr; }

  std::uint64_t fetch(std::int64_t index) const override {
    const FileReader reader = open(file_of(index));
    const FileRange where = range_in(index, reader.size());
    // Waiting for room could deadlock with the reader of a sample that waits for room, too.
    reader.need(where.offset, where.bytes, WhenFull::fail);
    return files_.file_of.empty() ? on_disk(where.bytes) + on_disk(1)
                                  : where.bytes;  // plus the notes file of the copy
  }

  [[nodiscard]] std::string object(std::int64_t index) const override {
    const std::string file(files_.files[file_of(index)]);
    return is_remote(file) ? file : (root_.folder() / file).string();
  }

  [[nodiscard]] std::string name(std::int64_t index) const override {
    const std::string file = printable(object(index));
    if (files_.file_of.empty()) return file;
    return file + ":" + printable(files_.names[static_cast<std::size_t>(index)]);
  }

  [[nodiscard]] std::string fingerprint() const override { return digest(files_.stamps); }

  /// Returns the fingerprint without modification times.
  [[nodiscard]] std::string membership() const override {
    std::vector<FileStamp> stamps = files_.stamps;
    for (FileStamp& stamp : stamps) stamp.mtime_ns = 0;
    return digest(stamps);
  }

 private:
  [[nodiscard]] std::string digest(const std::vector<FileStamp>& stamps) const {
    Hasher hasher;
    for (const NameList* list : {&files_.files, &files_.names}) {
      hasher.add(std::as_bytes(std::span(list->ends())));
      hasher.add(list->blob());
    }
    hasher.add(std::as_bytes(std::span(stamps)));
    hasher.add(std::as_bytes(std::span(files_.file_of)));
    hasher.add(std::as_bytes(std::span(files_.offsets)));
    hasher.add(std::as_bytes(std::span(files_.sizes)));
    hasher.add(files_.labels.rows);
    for (const std::string& name : facts_.class_names)
      hasher.add(name), hasher.add(std::uint64_t{name.size()});
    return hasher.hex();
  }

  [[nodiscard]] std::size_t file_of(std::int64_t index) const {
    ASSERT(index >= 0 && index < facts_.samples);
    const auto i = static_cast<std::size_t>(index);
    return files_.file_of.empty() ? i : files_.file_of[i];
  }

  /// Returns the byte range of the sample in its file of `size` bytes.
  [[nodiscard]] FileRange range_in(std::int64_t index, std::uint64_t size) const {
    const auto i = static_cast<std::size_t>(index);
    if (files_.file_of.empty()) return {i, 0, size};
    return {files_.file_of[i], files_.offsets[i], files_.sizes[i]};
  }

  [[noreturn]] void fail_as_changed(const FileReader& reader, std::size_t file) const {
    if (forget_) forget_();
    reader.forget();  // the list may be right and the local copy outdated
    const FileStamp& listed = files_.stamps[file];
    const bool resized = reader.size() != listed.size;
    throw ChangedFile(
        fmt::format("the file has changed since it was listed ({})\nhint: run the command again to "
                    "list the files again",
                    resized ? fmt::format("from {} to {} bytes", listed.size, reader.size())
                            : std::string("its modification time differs")));
  }

  DataRoot root_;
  ImageFiles files_;
  Facts facts_;
  std::function<void()> forget_;
  bool remote_;
  std::uint64_t bytes_;
};

}  // namespace

std::uint64_t ImageFiles::bytes() const {
  std::uint64_t sum = labels.rows.size();
  for (const NameList* list : {&files, &names})
    sum += list->blob().size() + list->ends().size() * sizeof(std::uint64_t);
  return sum + stamps.size() * sizeof(FileStamp) + file_of.size() * sizeof(std::uint32_t) +
         (offsets.size() + sizes.size()) * sizeof(std::uint64_t);
}

bool names_remote(const ImageFiles& files) {
  if (files.files.blob().find("://") == std::string::npos) return false;
  for (std::size_t i = 0; i < files.files.size(); ++i) {
    if (is_remote(files.files[i])) return true;
  }
  return false;
}

Facts ImageFiles::facts() const {
  return {samples(), labels.classes, {image_field({0, 0, 3}), labels.field}, labels.class_names};
}

bool has_image_suffix(std::string_view name) {
  constexpr std::array<std::string_view, 7> kSuffixes = {".jpg", ".jpeg", ".png", ".webp",
                                                         ".bmp", ".tif",  ".tiff"};
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string suffix(name.substr(dot));
  for (char& c : suffix) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::find(kSuffixes.begin(), kSuffixes.end(), suffix) != kSuffixes.end();
}

std::shared_ptr<const Dataset> image_file_dataset(DataRoot root, ImageFiles files,
                                                  std::function<void()> forget) {
  return std::make_shared<const ImageFileDataset>(std::move(root), std::move(files),
                                                  std::move(forget));
}

}  // namespace trainctl::data
