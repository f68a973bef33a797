// Default module ids are hashes of absolute paths: the built files, which are committed and
// compared, would depend on where the repository lies. Natural ids count in order of use.
module.exports = { optimization: { moduleIds: 'natural', chunkIds: 'natural' } };
