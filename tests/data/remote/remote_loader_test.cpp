#include "data/image/codec/png.hpp"
#include "data/loader/loader.hpp"
#include "data/loader/measurements.hpp"
#include "data/remote/local_tier.hpp"
#include "data/remote/object_store.hpp"
#include "data/remote/transfers.hpp"
#include "data/remote/web_server.hpp"
#include "data/sources.hpp"
#include "data/varied.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

constexpr int kImages = 60;

/// Writes a list of images to a folder and serves the same files from a server that sometimes
/// fails.
class Served {
 public:
  Served() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    std::string list;
    for (int i = 0; i < kImages; ++i) {
      const std::string name = std::to_string(i) + ".png";
      const std::vector<std::uint8_t> pixels(12 * 10 * 3, static_cast<std::uint8_t>(4 * i));
      write_png(local_ / name, ImageView(pixels.data(), {12, 10, 3}));
      list += name + (i % 2 == 0 ? ",even\n" : ",odd\n");
    }
    put_text(local_ / "list.csv", list);
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(local_.path()))
      files["/" + entry.path().filename().string()] = get_text(entry.path());
    server_ = std::make_unique<WebServer>(std::move(files), 7);
  }
  ~Served() { mount_remote(std::shared_ptr<LocalTier>()); }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  [[nodiscard]] Pipeline local() const { return pipeline_of(local_ / "list.csv"); }
  /// Uses an empty tier folder, as on a new machine.
  Pipeline remote() {
    const auto store = std::shared_ptr<ObjectStore>(http_store(
        std::make_shared<Transfers>(curl_client(), TransferOptions{.sleep = [](double) {}})));
    tiers_.push_back(std::make_unique<TempFolder>());
    mount_remote(std::make_shared<LocalTier>(tiers_.back()->path(),
                                             spec::Budget{.bytes = std::uint64_t{1} << 30},
                                             LocalTier::Stores{{"http", store}}));
    return pipeline_of(server_->url("/list.csv"));
  }
  [[nodiscard]] int requests() const { return server_->requests; }

 private:
  static Pipeline pipeline_of(const fs::path& list) {
    spec::dataset::ImageList options;
    options.path = list;
    return {build("image_list", options), {std::make_shared<Corner>(4)}, {}, {}};
  }

  CacheHome cache_;
  TempFolder local_;
  std::vector<std::unique_ptr<TempFolder>> tiers_;
  std::unique_ptr<WebServer> server_;
};

LoaderOptions remote_options(int workers) {
  return {.batch_size = 8, .num_workers = workers, .seed = 3, .tile_rows = 3};
}

}  // namespace

TEST_CASE("remote data: batches equal those of local files for any number of workers") {
  Served served;
  const auto expected = digest_epochs(served.local(), remote_options(0), 2).epochs;
  for (const int workers : {0, 1, 2, 8}) {
    const int before = served.requests();
    CHECK(digest_epochs(served.remote(), remote_options(workers), 2).epochs == expected);
    const int sent = served.requests() - before;
    CHECK(sent >= kImages + 1);
    CHECK(sent <= (kImages + 1) * 7 / 6 + 2);  // failed requests succeed on the second attempt
  }
}

TEST_CASE("remote data: a loader can be destroyed during a download") {
  Served served;
  for (int round = 0; round < 12; ++round) {
    Loader loader(served.remote(), remote_options(round % 4));
    loader.start_epoch(round);
    for (int batch = 0; batch < round % 5; ++batch) CHECK(loader.next()->index == batch);
    if (round % 3 == 0) loader.start_epoch(round + 7, 2);
  }
  CHECK(digest_epochs(served.remote(), remote_options(2), 1).epochs ==
        digest_epochs(served.local(), remote_options(0), 1).epochs);
}
