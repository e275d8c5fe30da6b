#include "data/dataset/mnist.hpp"

#include "base/files.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/core/registry.hpp"
#include "data/dataset/fetch_advice.hpp"
#include "data/formats/archive.hpp"
#include "data/remote/local_tier.hpp"

namespace trainctl::data {

namespace {

constexpr std::int64_t kMnistSide = 28;
constexpr std::int64_t kMnistClasses = 10;
constexpr std::uint32_t kImagesMagic = 0x00000803;  // unsigned byte, three dimensions
constexpr std::uint32_t kLabelsMagic = 0x00000801;  // unsigned byte, one dimension

fs::path find_file(const fs::path& root, const std::string& name) {
  if (auto found = first_existing({root / name, root / (name + ".gz")})) return *std::move(found);
  ENSURE(data, is_remote(root) || is_folder(root), "the folder {} does not exist", shown(root));
  throw Error(ErrorKind::data,
              fmt::format("{} contains neither {} nor {}.gz", shown(root), name, name));
}

/// An open IDX file whose header has been checked.
class IdxReader {
 public:
  IdxReader(const fs::path& path, std::uint32_t magic) : path_(path), source_(open_source(path)) {
    const std::uint32_t found = word("the magic number");
    ENSURE(data, found >> 16 != 0x1F8B,
           "{} is a gzip file without .gz in its name\nhint: rename it to {}.gz", shown(path_),
           shown(path_.filename()));
    ENSURE(data, found == magic,
           "{} is not an IDX file of {}: it must start with 0x{:08x}, got 0x{:08x}", shown(path_),
           magic == kImagesMagic ? "images" : "labels", magic, found);
    count_ = word("the number of samples");
    ENSURE(data, count_ > 0, "{} has 0 samples (byte 4)", shown(path_));
    if (magic == kImagesMagic) expect_side("rows"), expect_side("columns");
    sample_bytes_ = magic == kImagesMagic ? kMnistSide * kMnistSide : 1;
    expect_length();
  }

  [[nodiscard]] std::int64_t count() const { return count_; }

  void read_content(std::span<std::byte> out) {
    const std::size_t got = source_->read(out);
    offset_ += got;
    ENSURE(data, got == out.size(),
           "{} ends at byte {}, but its header states {} samples, which end at byte {}", where(),
           offset_, with_thousands(count_), offset_ - got + out.size());
    std::byte extra{};
    ENSURE(data, source_->read({&extra, 1}) == 0,
           "{} continues after byte {}, where its {} samples end", where(), offset_,
           with_thousands(count_));
  }

 private:
  std::uint32_t word(const char* what) {
    std::array<std::uint8_t, 4> bytes{};
    const std::size_t got = source_->read(std::as_writable_bytes(std::span(bytes)));
    ENSURE(data, got == 4, "{} ends at byte {}, within {}", where(), offset_ + got, what);
    offset_ += 4;
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
           std::uint32_t{bytes[2]} << 8 | bytes[3];
  }

  void expect_side(const char* what) {
    const std::uint32_t found = word(what);
    ENSURE(data, found == kMnistSide, "{} must have images of {} {}, got {} (byte {})", where(),
           kMnistSide, what, found, offset_ - 4);
  }

  // Checked before any allocation: a header may claim more samples than the file can hold.
  void expect_length() const {
    const std::uint64_t promised = offset_ + static_cast<std::uint64_t>(count_ * sample_bytes_);
    const bool packed = path_.extension() == ".gz";
    ENSURE(data, packed ? promised <= source_->most() : promised == source_->most(),
           "{} is damaged: its header (byte 4) states {} samples, which need {} bytes, but the "
           "file has {}{}{}",
           shown(path_), with_thousands(count_), promised, packed ? "at most " : "",
           source_->most(), packed ? " after unpacking" : "");
  }

  [[nodiscard]] std::string where() const {
    return (path_.extension() == ".gz" ? "the unpacked content of " : "") + shown(path_);
  }

  fs::path path_;
  std::unique_ptr<ByteSource> source_;
  std::uint64_t offset_ = 0;
  std::int64_t count_ = 0;
  std::int64_t sample_bytes_ = 0;
};

/// The two open files of a split.
struct IdxPair {
  IdxReader images;
  IdxReader labels;

  IdxPair(const fs::path& image_path, const fs::path& label_path)
      : images(image_path, kImagesMagic), labels(label_path, kLabelsMagic) {
    ENSURE(data, images.count() == labels.count(), "{} has {} labels for {} images",
           shown(label_path), with_thousands(labels.count()), with_thousands(images.count()));
  }
};

void expect_classes(std::span<const std::uint8_t> labels, const fs::path& path) {
  const auto bad = std::ranges::find_if(labels, [](auto label) { return label >= kMnistClasses; });
  ENSURE(data, bad == labels.end(), "{} has label {} at byte {}: labels must be 0 to {}",
         shown(path), *bad, 8 + (bad - labels.begin()), kMnistClasses - 1);
}

Facts facts_of(std::int64_t samples) {
  return MemoryDataset::facts(samples, kMnistClasses, {kMnistSide, kMnistSide, 1});
}

template <class Options>
void register_idx(Catalog& catalog, const char* type) {
  catalog.datasets[type] = [](const config::Stage& stage) {
    return IdxFiles(stage.as<Options>(), stage.type).load();
  };
  catalog.facts[type] = [](const config::Stage& stage) {
    return IdxFiles(stage.as<Options>(), stage.type).facts();
  };
}

}  // namespace

IdxFiles::IdxFiles(const spec::dataset::Idx& options, std::string type)
    : type_(std::move(type)), root_(options.root) {
  const std::string prefix = options.split == spec::Split::train ? "train" : "t10k";
  with_fetch_advice(type_, root_, [&] {
    images_ = find_file(options.root, prefix + "-images-idx3-ubyte");
    labels_ = find_file(options.root, prefix + "-labels-idx1-ubyte");
  });
}

Facts IdxFiles::facts() const {
  return with_fetch_advice(type_, root_,
                           [&] { return facts_of(IdxPair(images_, labels_).images.count()); });
}

std::shared_ptr<const Dataset> IdxFiles::load() const {
  return with_fetch_advice(type_, root_, [&] {
    auto [images, labels] = IdxPair(images_, labels_);
    Facts facts = facts_of(images.count());
    Arena pixels = image_memory(facts);
    images.read_content(pixels.bytes());
    std::vector<std::uint8_t> classes(static_cast<std::size_t>(labels.count()));
    labels.read_content(std::as_writable_bytes(std::span(classes)));
    expect_classes(classes, labels_);
    return std::make_shared<const MemoryDataset>(std::move(facts), std::move(pixels),
                                                 std::move(classes));
  });
}

void register_dataset_mnist(Catalog& catalog) {
  register_idx<spec::dataset::Mnist>(catalog, "mnist");
}

void register_dataset_fashion_mnist(Catalog& catalog) {
  register_idx<spec::dataset::FashionMnist>(catalog, "fashion_mnist");
}

}  // namespace trainctl::data
