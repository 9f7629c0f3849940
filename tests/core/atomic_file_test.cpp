#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "core/os.h"
#include "support/temp_folder.h"

namespace onepass::test {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::set<std::string> names(const std::filesystem::path& folder) {
  std::set<std::string> list;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    list.insert(entry.path().filename().string());
  }
  return list;
}

// Files of this process can have so many bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(AtomicFile, AppearsOnCommit) {
  const TempFolder folder;
  const auto path = folder.path() / "a.bin";
  Result<os::AtomicFile> file = os::AtomicFile::create(path.string());
  ASSERT_TRUE(file) << file.error().to_string();
  ASSERT_TRUE(file->write("one "));
  ASSERT_TRUE(file->write("two"));
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(contents(path), "one two");
  EXPECT_EQ(names(folder.path()), std::set<std::string>{"a.bin"});
  const Status late = file->write("three");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::invalid_state);
  const Status twice = file->commit();
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::invalid_state);
}

TEST(AtomicFile, DroppedKeepsTheOlderFile) {
  const TempFolder folder;
  const std::string path = folder.write_text("a.txt", "old");
  {
    Result<os::AtomicFile> file = os::AtomicFile::create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("new"));
    os::AtomicFile moved = std::move(*file);
    ASSERT_TRUE(moved.write(" and more"));
  }
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(names(folder.path()), std::set<std::string>{"a.txt"});
}

TEST(AtomicFile, ReplacesAndKeepsThePermissions) {
  const TempFolder folder;
  const std::string path = folder.write_text("a.txt", "old and long");
  chmod(path.c_str(), 0640);
  Result<os::AtomicFile> file = os::AtomicFile::create(path);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write("new"));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(contents(path), "new");
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

TEST(AtomicFile, FollowsLinks) {
  const TempFolder folder;
  const std::string path = folder.write_text("target", "old");
  const auto link = folder.path() / "link";
  std::filesystem::create_symlink("target", link);
  Result<os::AtomicFile> file = os::AtomicFile::create(link.string());
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write("new"));
  ASSERT_TRUE(file->commit());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(contents(path), "new");
}

TEST(AtomicFile, NoSpaceLeavesNothing) {
  const TempFolder folder;
  const auto path = folder.path() / "a.bin";
  const std::string page(4096, 'x');
  Status status;
  {
    const FileSizeLimit limit(10000);
    Result<os::AtomicFile> file = os::AtomicFile::create(path.string());
    ASSERT_TRUE(file);
    for (int i = 0; i < 4 && status; ++i) status = file->write(page);
    EXPECT_FALSE(file->commit());
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::io);
  EXPECT_EQ(status.error().byte_offset, 10000u);
  EXPECT_NE(status.error().message.find("a.bin"), std::string::npos);
  EXPECT_TRUE(names(folder.path()).empty());
}

TEST(AtomicFile, WritesToWhatIsNoRegularFile) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  Result<os::AtomicFile> null = os::AtomicFile::create("/dev/null");
  ASSERT_TRUE(null);
  EXPECT_TRUE(null->write("text"));
  EXPECT_TRUE(null->commit());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  Result<os::AtomicFile> full = os::AtomicFile::create("/dev/full");
  ASSERT_TRUE(full);
  const Status status = full->write("text");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::io);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(AtomicFile, BadPlaces) {
  const TempFolder folder;
  const Result<os::AtomicFile> in_folder =
      os::AtomicFile::create((folder.path() / "none" / "a").string());
  ASSERT_FALSE(in_folder);
  EXPECT_EQ(in_folder.error().code, ErrorCode::not_found);
  const Result<os::AtomicFile> over_folder = os::AtomicFile::create(folder.path().string());
  ASSERT_FALSE(over_folder);
  EXPECT_EQ(over_folder.error().code, ErrorCode::io);
}

}  // namespace
}  // namespace onepass::test
