#pragma once

#include "base/files.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trainctl::data::testing {

/// Serves files from memory by path, with support for ranges. Each connection is kept alive and has
/// a separate thread. Every `fails_every`-th request gets the status 503.
class WebServer {
 public:
  WebServer(std::map<std::string, std::string> files, int fails_every)
      : files_(std::move(files)),
        fails_every_(fails_every),
        listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.get(), raw, size) != 0 || ::listen(listener_.get(), 64) != 0 ||
        ::getsockname(listener_.get(), raw, &size) != 0)
      throw std::runtime_error("the test's web server cannot listen");
    port_ = ::ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~WebServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    for (const Fd& connection : connections_) ::shutdown(connection.get(), SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
  }
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  [[nodiscard]] std::string url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }

  std::atomic<int> requests = 0;

 private:
  void accept_all() {
    while (true) {
      const int fd = ::accept(listener_.get(), nullptr, nullptr);
      if (fd < 0) return;
      connections_.emplace_back(fd);
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    std::string text;
    char part[4096];
    while (true) {
      const ssize_t count = ::recv(fd, part, sizeof part, 0);
      if (count <= 0) return;
      text.append(part, static_cast<std::size_t>(count));
      if (!text.ends_with("\r\n\r\n")) continue;
      const std::string reply = answer(text);
      text.clear();
      for (std::size_t done = 0; done < reply.size();) {
        const ssize_t sent = ::send(fd, reply.data() + done, reply.size() - done, MSG_NOSIGNAL);
        if (sent <= 0) return;
        done += static_cast<std::size_t>(sent);
      }
    }
  }

  std::string answer(const std::string& request) {
    const int number = ++requests;
    if (fails_every_ > 0 && number % fails_every_ == 0) return reply("503 Busy", "", "");
    const auto file = files_.find(request.substr(4, request.find(' ', 4) - 4));
    if (file == files_.end()) return reply("404 Not Found", "", "");
    const std::string& bytes = file->second;
    unsigned long long first = 0;
    unsigned long long last = bytes.size() - 1;
    const std::size_t at = request.find("Range: ");
    if (at == std::string::npos) return reply("200 OK", "", bytes);
    (void)std::sscanf(request.c_str() + at, "Range: bytes=%llu-%llu", &first, &last);
    last = std::min<unsigned long long>(last, bytes.size() - 1);
    return reply("206 Partial Content",
                 "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(last) +
                     "/" + std::to_string(bytes.size()) + "\r\n",
                 bytes.substr(first, last - first + 1));
  }

  static std::string reply(const std::string& status, const std::string& headers,
                           const std::string& body) {
    return "HTTP/1.1 " + status +
           "\r\nETag: \"e\"\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers +
           "\r\n" + body;
  }

  const std::map<std::string, std::string> files_;
  const int fails_every_;
  Fd listener_;
  int port_ = 0;
  std::thread acceptor_;
  std::vector<Fd> connections_;       // owned by the acceptor until it ends
  std::vector<std::thread> threads_;  // owned by the acceptor until it ends
};

}  // namespace trainctl::data::testing
