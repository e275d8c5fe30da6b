#include "data/remote/object_store.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/formats/file_reader.hpp"
#include "data/remote/transfers.hpp"

#include <pugixml.hpp>
#include <sys/stat.h>

#include <cctype>

namespace trainctl::data {

Url parse_url(const std::filesystem::path& path) {
  Url url;
  url.text = path.string();
  ASSERT(is_remote(url.text));
  const std::string_view text = url.text;
  const std::size_t scheme_end = text.find("://");
  const std::size_t host_end = std::min(text.find('/', scheme_end + 3), text.size());
  url.scheme = text.substr(0, scheme_end);
  url.host = text.substr(scheme_end + 3, host_end - scheme_end - 3);
  url.path = host_end < text.size() ? text.substr(host_end) : "/";
  ENSURE(config, url.host.find('@') == std::string::npos,
         "a {}:// path must not contain a user or password before '@'\nhint: set the credentials "
         "in dataset.remote, as ${{secret:NAME}}",
         url.scheme);
  ENSURE(config, !url.scheme.starts_with("http") || url.path.find('?') == std::string::npos,
         "a {}:// path must not contain a query after '?', as a signed link does\nhint: remove the "
         "query, and set credentials in dataset.remote, as ${{secret:NAME}}",
         url.scheme);
  const bool is_file = url.scheme == "file";
  ENSURE(config, url.host.empty() == is_file, "'{}' {}", printable(url.text),
         is_file ? "must have an absolute path after 'file://'\nhint: write three slashes, such as "
                   "file:///slow/data"
                 : "has no host or bucket\nhint: write the host or bucket after '://'");
  return url;
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != text.npos ||
                       kept.find(c) != text.npos;
    result += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return result;
}

namespace {

std::string etag_of(const FileStamp& stamp) {
  return fmt::format("{}-{}", stamp.size, stamp.mtime_ns);
}

/// Returns nothing for a folder. Broken links and links to folders are errors, because a list
/// without their targets would be incomplete.
std::optional<FileStamp> stamp_of_entry(const fs::directory_entry& entry) {
  std::error_code ignored;
  const bool link = entry.is_symlink(ignored);
  struct stat info {};
  const bool there = ::stat(entry.path().c_str(), &info) == 0;
  ENSURE(data, there || !link, "{} is a broken symbolic link\nhint: remove it",
         shown(entry.path()));
  ENSURE(data, !link || !S_ISDIR(info.st_mode),
         "{} is a symbolic link to a folder, which file:// does not follow\nhint: replace it with "
         "the folder, or use a path without file:// and set follow_links: true",
         shown(entry.path()));
  if (!there || !S_ISREG(info.st_mode)) return std::nullopt;
  return stamp_of(info);
}

class FileStore final : public ObjectStore {
 public:
  std::optional<ObjectPart> read(const Url& url, const ByteRange& range) override {
    std::error_code failure;
    const bool there = fs::exists(url.path, failure);
    if (!there && !failure) return std::nullopt;
    const FileReader file{fs::path(url.path)};
    ObjectPart piece{{}, file.size(), etag_of(file.stamp())};
    const std::uint64_t end = std::min(range.offset + range.size, file.size());
    piece.bytes.resize(end - std::min(range.offset, end));
    file.read(range.offset, std::as_writable_bytes(std::span(piece.bytes)));
    return piece;
  }

  std::vector<ObjectInfo> list(const Url& prefix) override {
    const fs::path folder = prefix.path.substr(0, prefix.path.rfind('/') + 1);
    std::vector<ObjectInfo> found;
    std::error_code failure;
    fs::recursive_directory_iterator entry(folder, failure);
    for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
      const std::string path = entry->path().string();
      if (!path.starts_with(prefix.path)) continue;
      if (const auto stamp = stamp_of_entry(*entry))
        found.push_back({path.substr(prefix.path.size()), stamp->size, etag_of(*stamp)});
    }
    ENSURE(data, !failure, "cannot read folder {}: {}", shown(folder), failure.message());
    std::ranges::sort(found, {}, &ObjectInfo::name);
    return found;
  }
};

class HttpStore final : public ObjectStore {
 public:
  explicit HttpStore(std::shared_ptr<Transfers> transfers) : transfers_(std::move(transfers)) {}

  std::optional<ObjectPart> read(const Url& url, const ByteRange& range) override {
    HttpRequest request;
    // Keeps existing percent-encoding; names from a list may need encoding.
    request.url = url.scheme + "://" + url.host + percent_encoded(url.path, "/%:@!$&'()*+,;=");
    return transfers_->read(std::move(request), range, url.text);
  }

  std::vector<ObjectInfo> list(const Url& prefix) override {
    throw Error(ErrorKind::config,
                fmt::format("cannot list {}: HTTP cannot list folders\nhint: name the files with "
                            "image_list, or with webdataset and a range such as {{000..099}}",
                            printable(prefix.text)));
  }

 private:
  std::shared_ptr<Transfers> transfers_;
};

constexpr std::size_t kMostEmptyPages = 1000;

class S3Store final : public ObjectStore {
 public:
  S3Store(std::shared_ptr<Transfers> transfers, S3Options options)
      : transfers_(std::move(transfers)), options_(std::move(options)) {
    if (options_.endpoint.empty())
      options_.endpoint = fmt::format("https://s3.{}.amazonaws.com", options_.region);
    while (options_.endpoint.ends_with('/')) options_.endpoint.pop_back();
  }

  std::optional<ObjectPart> read(const Url& url, const ByteRange& range) override {
    HttpRequest request = request_of(url);
    request.url += percent_encoded(url.path, "/");
    return transfers_->read(std::move(request), range, url.text);
  }

  std::vector<ObjectInfo> list(const Url& prefix) override {
    std::vector<ObjectInfo> found;
    std::string token;
    std::size_t empty_pages = 0;
    do {
      S3Page page = read_page(prefix, token);
      empty_pages = page.objects.empty() ? empty_pages + 1 : 0;
      for (ObjectInfo& object : page.objects) {
        if (!object.name.starts_with(prefix.key())) continue;
        object.name.erase(0, prefix.key().size());
        // S3 sorts by the bytes of the key.
        ENSURE(data, found.empty() || found.back().name < object.name,
               "cannot list {}: the server is not compatible with S3: it sends names twice or "
               "unsorted\nhint: set dataset.remote.endpoint to the address of an S3 server",
               printable(prefix.text));
        found.push_back(std::move(object));
      }
      ENSURE(data, found.size() <= options_.most_objects,
             "cannot list {}: there are more than {} objects\nhint: name a smaller folder",
             printable(prefix.text), options_.most_objects);
      ENSURE(data, empty_pages <= kMostEmptyPages,
             "cannot list {}: the server sent {} empty pages in a row without ending the "
             "list\nhint: set dataset.remote.endpoint to the address of an S3 server",
             printable(prefix.text), empty_pages);
      token = page.next;
    } while (!token.empty());
    return found;
  }

 private:
  [[nodiscard]] HttpRequest request_of(const Url& url) const {
    HttpRequest request;
    request.url = options_.endpoint + "/" + percent_encoded(url.host, "");
    request.signing = options_.signing;
    return request;
  }

  S3Page read_page(const Url& prefix, const std::string& token) {
    HttpRequest request = request_of(prefix);
    // The signature requires alphabetical order.
    request.url += token.empty() ? "?" : "?continuation-token=" + percent_encoded(token, "") + "&";
    request.url += "list-type=2&prefix=" + percent_encoded(prefix.key(), "");
    const auto answer = transfers_->get(std::move(request), prefix.text);
    ENSURE(data, answer,
           "bucket '{}' does not exist at {}\nhint: correct the path or dataset.remote.endpoint",
           printable(prefix.host), printable(options_.endpoint));
    std::optional<S3Page> page = parse_s3_page(*answer);
    ENSURE(data, page,
           "{} did not return an S3 listing of {}\nhint: set dataset.remote.endpoint to the "
           "address of an S3 server",
           printable(options_.endpoint), printable(prefix.text));
    return *std::move(page);
  }

  std::shared_ptr<Transfers> transfers_;
  S3Options options_;
};

std::optional<ObjectInfo> object_of(const pugi::xml_node& contents) {
  const auto size = parse_number<decltype(ObjectInfo::size)>(contents.child_value("Size"));
  if (!contents.child("Key") || !size) return std::nullopt;
  return ObjectInfo{contents.child_value("Key"), *size, plain_etag(contents.child_value("ETag"))};
}

}  // namespace

std::unique_ptr<ObjectStore> file_store() { return std::make_unique<FileStore>(); }

std::unique_ptr<ObjectStore> http_store(std::shared_ptr<Transfers> transfers) {
  return std::make_unique<HttpStore>(std::move(transfers));
}

std::unique_ptr<ObjectStore> s3_store(std::shared_ptr<Transfers> transfers, S3Options options) {
  return std::make_unique<S3Store>(std::move(transfers), std::move(options));
}

std::string plain_etag(std::string text) {
  if (text.starts_with("W/")) text.erase(0, 2);
  std::erase(text, '"');
  return text;
}

std::optional<S3Page> parse_s3_page(std::string_view xml) {
  pugi::xml_document document;
  // By default pugixml drops text that consists only of blanks, but a key may be such text.
  constexpr unsigned kOptions = pugi::parse_default | pugi::parse_ws_pcdata_single;
  if (!document.load_buffer(xml.data(), xml.size(), kOptions)) return std::nullopt;
  const pugi::xml_node list = document.child("ListBucketResult");
  if (!list) return std::nullopt;
  S3Page page;
  if (list.child_value("IsTruncated") == std::string_view("true")) {
    page.next = list.child_value("NextContinuationToken");
    if (page.next.empty()) return std::nullopt;
  }
  for (const pugi::xml_node& contents : list.children("Contents")) {
    auto object = object_of(contents);
    if (!object) return std::nullopt;
    page.objects.push_back(*std::move(object));
  }
  return page;
}

}  // namespace trainctl::data
