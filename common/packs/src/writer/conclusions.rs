//! Conclusions about a site that need all of its files: encodings, hashes in names, rules, warnings, and the manifest.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io,
};

use domain::Timestamp;

use super::{
    super::{
        FileEntry, Manifest, WrittenPack, advice,
        dates::FileDates,
        encoded::{self, EncodingRules},
        files,
        fingerprints::{ContentVerifier, FingerprintFinder, SiteFile},
        rules::{self, headers::CompiledHeaders},
        types,
    },
    ArchiveContents, may_be_key,
};

/// Maximum number of files with a wrong encoding that warnings name.
const MISNAMED: usize = 20;

impl ArchiveContents<'_> {
    /// Determines which files are stored encoded, and which names carry hashes.
    pub(super) fn detect_encodings(&mut self, data: &File) -> io::Result<()> {
        let headers = self.headers.take();
        self.kept_headers = headers.as_deref().and_then(rules::kept::headers);
        let compiled = rules::headers::compile(&headers.unwrap_or_default());
        let sayings = EncodingRules::from_rules(&compiled.rules);
        let loaders: HashSet<&str> = self.files.keys().filter_map(|path| encoded::unity_folder(path)).collect();
        for (path, index) in &self.files {
            let claimed = encoded::claimed(path, |folder| loaders.contains(folder)).map(|claim| claim.encoding);
            let said = sayings.find_for_path(path);
            let Some(encoding) = said.or(claimed) else { continue };
            if encoded::is_encoded(data, self.bodies[*index].span, encoding)? {
                self.encoded.insert(path.clone(), encoding);
            } else if said.is_some() && self.misnamed.len() < MISNAMED {
                self.misnamed.push(format!(
                    "`_headers` says that `{path}` is encoded as {}, which it is not: it is sent without `Content-Encoding`",
                    encoding.token()
                ));
            }
        }
        let files = self.files.iter().map(|(path, index)| SiteFile { path, span: self.bodies[*index].span }).collect();
        let found = FingerprintFinder::new(files).decide(ContentVerifier::new(data))?;
        self.fingerprinted = found.into_iter().map(str::to_owned).collect();
        self.compiled_headers = compiled;
        Ok(())
    }

    /// Returns the manifest and the pack's properties. `dates` are those of the earlier pack's files.
    pub(super) fn into_pack(mut self, now: Timestamp, dates: &FileDates) -> (Manifest, WrittenPack) {
        // A hash identifies one content: a name whose content has changed has no hash, whatever it looks like.
        let is_changed =
            |path: &str| self.files.get(path).is_some_and(|&body| dates.is_changed(path, &self.bodies[body].sha256));
        let changed: Vec<String> = self.fingerprinted.extract_if(|path| is_changed(path)).collect();
        let mut written = self.written;
        written.warnings.extend(advice::changed_under_hash(changed));
        written.warnings.extend(self.replaced.into_warnings());
        written.warnings.extend(self.misnamed);
        let CompiledHeaders { rules: headers, access, warnings } = self.compiled_headers;
        written.warnings.extend(warnings);
        let has_file = |path: &str| self.files.contains_key(path);
        let (redirects, warnings) = rules::redirects::compile(&self.redirects.unwrap_or_default(), has_file);
        written.warnings.extend(warnings);
        let paths = self.files.keys().map(String::as_str);
        written.warnings.extend(advice::missing_index(paths, &redirects));
        let keys = self.files.iter().map(|(path, &body)| (&**path, may_be_key(path) && self.bodies[body].has_key));
        written.warnings.extend(advice::private_files(keys));
        let (redirects, extended_redirects) = Manifest::split_redirects(redirects);
        let now = dates.next(now.unix_seconds());
        let files: BTreeMap<String, FileEntry> = self
            .files
            .into_iter()
            .map(|(path, index)| {
                let body = &self.bodies[index];
                let encoded = self.encoded.get(&path).copied();
                let claim = encoded::claimed(&path, |_| true).filter(|claim| encoded == Some(claim.encoding));
                let essence = types::essence(claim.map_or(&*path, |claim| claim.inner));
                let forms = if encoded.is_some() { 0 } else { body.variants.len() };
                let mut digests = body.digests.clone();
                digests.truncate(1 + forms);
                let entry = FileEntry {
                    content_type: types::content_type(essence, body.is_utf8),
                    sha256: hex::encode(body.sha256),
                    fingerprinted: self.fingerprinted.contains(&path),
                    encoded,
                    identity: body.span,
                    variants: body.variants[..forms].to_vec(),
                    loads_parts: files::is_page(&path) && body.loads_parts == Some(true),
                    digests,
                    modified: dates.since(&path, &body.sha256, now),
                };
                (path, entry)
            })
            .collect();
        let (version, created_at, robots) = (Manifest::version_with(&access), now, self.robots);
        let fingerprints = Manifest::FINGERPRINTS;
        let manifest = Manifest {
            version,
            created_at,
            files,
            fingerprints,
            headers,
            redirects,
            extended_redirects,
            access,
            robots,
            unserved: self.unserved,
        };
        (manifest, written)
    }
}
