// A folder that goes with the object.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace onepass::test {

class TempFolder {
 public:
  TempFolder() {
    path_ = std::filesystem::temp_directory_path() /
            ("onepass_" + std::to_string(getpid()) + "_" + std::to_string(++count_));
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, std::span<const std::byte> bytes) const {
    const std::string path = (path_ / name).string();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  std::string write_text(const std::string& name, std::string_view text) const {
    return write(name, std::as_bytes(std::span<const char>(text)));
  }
  std::filesystem::path path() const { return path_; }
  // Of the files in it.
  std::size_t size_bytes() const {
    std::size_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      bytes += static_cast<std::size_t>(entry.file_size());
    }
    return bytes;
  }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

}  // namespace onepass::test
